"""The node that a finding on sizes shows: the one that fails at other sizes, with the shapes that it is given."""

from __future__ import annotations

import onnx
import pytest

import shapesolve as ss

from .broken import ints, model


@pytest.mark.parametrize(
    ("text", "code", "shapes"),
    [
        ("MatMul(a, b)", "SS402", ["[batch, m]", "[n, 128]"]),
        ("MatMul(a, w)", "SS405", ["[batch, m]", "[64, 8]"]),
        ("MatMul(w, a)", "SS401", ["[64, 8]", "[batch, m]"]),
        ("Concat<axis: int = 1>(a, b)", "SS402", ["[batch, m]", "[n, 128]"]),
        ("Add(a, b)", "SS301", ["[batch, m]", "[n, 128]"]),
        ("Add(a, w)", "SS404", ["[batch, m]", "[64, 8]"]),
        ("Conv(image, kernel)", "SS403", ["[batch, 3, h, w_]", "[8, 3, 5, 5]"]),
    ],
)
def test_a_node_that_restricts_a_size_is_shown_with_the_shapes_that_it_is_given(
    text: str, code: str, shapes: list[str]
) -> None:
    """In the names that the inputs declare, though what the node needs makes them numbers."""
    inputs = "float[batch, m] a, float[n, 128] b, float[batch, 3, h, w_] image"
    m = model(f"g ({inputs}) => (y) {{ [node] y = {text} }}", w=[64, 8], kernel=[8, 3, 5, 5])
    found = [f for f in ss.analyze(m).diagnostics if f.node == "node" and f.code != "SS501"]
    assert code in {f.code for f in found}
    assert {tuple(shape for _, shape, _ in f.operands) for f in found} == {tuple(shapes)}


def _chained(first: tuple[int, ...], second: tuple[int, ...], turned: bool) -> onnx.ModelProto:
    perm = [1, 0, *range(2, len(first))] if turned else [*range(len(first))]
    return model(
        f"""g (float[batch, seq, 32] x) => (y) {{ [one] a = Reshape(x, first)
        [turn] b = Transpose<perm: ints = {perm}>(a) [two] y = Reshape(b, second) }}""",
        first=ints(*first),
        second=ints(*second),
    )


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("second", [(1, 9, 32), (0, 9, 32), (0, -1), (1, 9, 4, 8)])
@pytest.mark.parametrize("first", [(1, -1, 8), (0, 9, 4, 8), (0, 0, 4, 8), (-1, 3, 32), (0, -1)])
def test_of_nodes_in_a_chain_one_is_shown_that_fails_where_only_this_size_is_another(
    first: tuple[int, ...], second: tuple[int, ...], turned: bool
) -> None:
    """A `Reshape` that fixes the batch takes part in what makes ``seq == 9`` of ``batch == 0 or seq == 9``, and is innocent."""
    a = ss.analyze(_chained(first, second, turned))
    for f in (f for f in a.diagnostics if f.code == "SS401"):
        runs = dict(f.runs) or a._solved.completed({"batch": 1}) or a._solved.completed({})
        (name,) = (n for n in a.symbols if f.title.startswith(f"{n} is"))
        others = [{**runs, name: runs[name] + k} for k in (1, -1, 2, 3, 9)]
        assert f.node in {
            v.constraint.node for o in others for v in a._solved.violations_at(o) if v.constraint
        }
        assert not f.fails or f.node == a._solved.violations_at(dict(f.fails))[0].constraint.node


def test_the_reshape_is_shown_that_keeps_the_example_and_not_the_one_that_groups() -> None:
    (f,) = ss.analyze(
        model(
            "g (float[1, seq, 32] x) => (y) { [one] a = Reshape(x, first) [two] y = Reshape(a, second) }",
            first=ints(-1, 3, 32),
            second=ints(1, 9, 32),
        )
    ).diagnostics
    assert (f.code, f.node, f.runs, f.fails) == ("SS401", "two", (("seq", 9),), (("seq", 12),))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Det(a)", "axis 0 and axis 1 of the first input must be equal"),
        ("local.Pairs(c, d)", "axis 1 of the first input and axis 1 of the second input must be equal"),
        ("local.Groups(c, d)", "axis 2 of the first input and axis 2 of the second input must be equal"),
        (
            "local.Regions(c, d)",
            "the number of regions must be equal: axis 1 of the first input and axis 1 of the second input",
        ),
    ],
)
def test_a_signature_names_the_inputs_and_axes_that_must_agree(text: str, said: str) -> None:
    rules = ss.Registry()
    rules.signature("Pairs", "N C S, N C S -> N C S", domain="local")
    rules.signature("Groups", "*S, *S -> *S", domain="local")
    rules.signature("Regions", "N number_of_regions S, N number_of_regions S -> N", domain="local")
    inputs = "float[9, 8] a, float[2, p, r] c, float[2, q, s] d"
    m = model(f"g ({inputs}) => (y) {{ [node] y = {text} }}")
    m.opset_import.append(onnx.helper.make_opsetid("local", 1))
    a = ss.analyze(m, registry=rules)
    told = [c.rule for c in a._solved.stated if c.node == "node"] + [
        f.steps[-1].text for f in a.diagnostics if f.steps
    ]
    assert any(said in t for t in told)
    assert not any(t.startswith(("C must", "S must", "sizes must")) for t in told)
