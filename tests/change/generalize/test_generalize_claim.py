"""`generalize` claims no more sizes than its exports show."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import shapesolve as ss
from shapesolve.change.generalize.claim import Shown
from shapesolve.change.generalize.model import generalized
from shapesolve.cli import app
from shapesolve.model import read_model

from ...building import share
from ..free.test_free import ints, model, node
from ..free.test_free_rows import run

Build = Callable[..., onnx.ModelProto]


class Image:
    """Builds a graph on an image of fixed size, as an exporter does: what changes nothing at this size leaves no node."""

    def __init__(self, height: int, width: int) -> None:
        self.given, self.shape = [1, 2, height, width], [1, 2, height, width]
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, np.ndarray] = {}
        self.last = "x"

    def add(
        self, op_type: str, *operands: np.ndarray | None, sizes: Sequence[int] = (), **attributes: object
    ) -> None:
        names = ["" if a is None else f"k{len(self.stored)}_{i}" for i, a in enumerate(operands)]
        self.stored |= {name: a for name, a in zip(names, operands, strict=True) if a is not None}
        output = f"t{len(self.nodes)}"
        made = onnx.helper.make_node(op_type, [self.last, *names], [output], f"the_{output}", **attributes)
        self.nodes.append(made)
        self.last = output
        self.shape = [*self.shape[:2], *(sizes or self.shape[2:])]

    def stride(self, step: int) -> None:
        kernel = np.random.default_rng(step).standard_normal((2, 2, 3, 3)).astype(np.float32)
        sizes = [(n - 1) // step + 1 for n in self.shape[2:]]
        self.add("Conv", kernel, sizes=sizes, strides=[step, step], pads=[1, 1, 1, 1])

    def pool(self, size: int) -> None:
        self.add(
            "MaxPool", sizes=[n // size for n in self.shape[2:]], kernel_shape=[size] * 2, strides=[size] * 2
        )

    def pad(self, multiple: int) -> None:
        missing = [-n % multiple for n in self.shape[2:]]
        if any(missing):
            self.add(
                "Pad", ints(0, 0, 0, 0, 0, 0, *missing), sizes=[n - n % -multiple for n in self.shape[2:]]
            )

    def resize(self, multiple: int) -> None:
        sizes = [n - n % -multiple for n in self.shape[2:]]
        if sizes != self.shape[2:]:
            self.add("Resize", None, None, ints(*self.shape[:2], *sizes), sizes=sizes, mode="nearest")

    def windows(self, size: int) -> None:
        self.resize(size)
        height, width = self.shape[2:]
        self.add("Reshape", ints(2 * height // size, size, width // size, size))
        self.add("Softmax", axis=-1)
        self.add("Reshape", ints(1, 2, height, width))

    def model(self) -> onnx.ModelProto:
        self.nodes.append(node("Identity", self.last))
        return model(self.nodes, self.stored, self.given)


def at(sizes: Sequence[tuple[int, int]], build: Build) -> onnx.ModelProto:
    return ss.generalize([build(*size) for size in sizes], {"x[2]": "height", "x[3]": "width"})


def shown(sizes: Sequence[int], build: Build) -> list[Shown]:
    return [*generalized([read_model(build(n)) for n in sizes], {"x[1]": "seq"}).shown]


def accepted(made: onnx.ModelProto, sizes: Sequence[int], rank: int = 3) -> list[int]:
    analysis = ss.analyze(made)
    shape: Callable[[int], tuple[int, ...]] = lambda n: (1, 2, n, 64) if rank == 4 else (2, n, 4)  # noqa: E731
    return [n for n in sizes if not analysis.check_inputs({"x": shape(n)})]


def patches(height: int, width: int) -> onnx.ModelProto:
    """Features are resized to a multiple of 32, which leaves no node at multiples of 64."""
    image = Image(height, width)
    image.stride(2)
    image.resize(32)
    image.stride(1)
    return image.model()


def test_a_divided_size_keeps_to_the_progression_of_the_exports() -> None:
    made = at([(64, 64), (128, 128)], patches)
    assert accepted(made, range(300), rank=4) == [64, 128, 192, 256]
    assert {"height % 64 == 0", "width % 64 == 0"} <= {str(t) for t in ss.analyze(made).contract}
    x = np.ones((1, 2, 192, 128), np.float32)
    np.testing.assert_allclose(run(made, x), run(patches(192, 128), x), rtol=1e-4)
    with pytest.raises(Exception, match="limit height % 64 == 0"):
        run(made, np.ones((1, 2, 96, 64), np.float32))


def halved(n: int) -> onnx.ModelProto:
    return model(
        [node("Slice", "x a b c d")],
        {"a": ints(0), "b": ints(1 << 40), "c": ints(1), "d": ints(2)},
        [2, n, 4],
    )


def test_what_is_left_out_and_the_export_that_admits_it() -> None:
    assert shown([64, 128], halved) == [
        Shown(
            "seq", (64, 128), "seq % 64 == 0", "the_Slice_y divides seq", 96, "seq % 32 == 0", ("seq > 128",)
        )
    ]
    assert shown([64, 96, 128], halved)[0].condition == "seq % 32 == 0"
    assert shown([9, 20, 10], halved) == [Shown("seq", (9, 10, 20), extrapolated=("seq < 9", "seq > 20"))]


def test_an_export_that_is_named_admits_what_it_says() -> None:
    made = ss.generalize([halved(n) for n in (64, 128, 96)], {"x[1]": "seq"})
    assert accepted(made, range(130)) == [32, 64, 96, 128]


def test_a_size_that_is_not_divided_stays_free_but_is_not_0() -> None:
    made = ss.generalize([model([node("Relu", "x")], {}, [2, n, 4]) for n in (8, 16)], {"x[1]": "seq"})
    assert accepted(made, range(40)) == [*range(1, 40)]
    with pytest.raises(Exception, match="limit x is not empty"):
        run(made, np.ones((2, 0, 4), np.float32))
    zero = ss.generalize([model([node("Relu", "x")], {}, [2, n, 4]) for n in (0, 16)], {"x[1]": "seq"})
    assert accepted(zero, range(3)) == [0, 1, 2]


@pytest.mark.parametrize("opset", [7, 9, 13])
def test_limits_in_older_opsets(opset: int) -> None:
    def make(n: int) -> onnx.ModelProto:
        made = model([node("MaxPool", "x", kernel_shape=[2], strides=[2])], {}, [2, 4, n])
        made.opset_import[0].version = opset
        return made

    made = ss.generalize([make(6), make(10)], {"x[2]": "seq"})
    analysis = ss.analyze(made)
    for n in range(12):
        runs = not analysis.check_inputs({"x": (2, 4, n)})
        assert runs == (n % 4 == 2)
        if runs:
            run(made, np.ones((2, 4, n), np.float32))
        else:
            with pytest.raises(Exception, match=r"limit|MaxPool"):
                run(made, np.ones((2, 4, n), np.float32))


def test_opset_6_checks_only_that_sizes_are_not_0() -> None:
    def make(op_type: str, n: int) -> onnx.ModelProto:
        attributes = {"kernel_shape": [2], "strides": [2]} if op_type == "MaxPool" else {}
        made = model([node(op_type, "x", **attributes)], {}, [2, 4, n], opset=6)
        made.ir_version = 3
        return made

    made = ss.generalize([make("Relu", n) for n in (6, 10)], {"x[2]": "seq"})
    run(made, np.ones((2, 4, 3), np.float32))
    with pytest.raises(Exception, match="limit x is not empty"):
        run(made, np.ones((2, 4, 0), np.float32))
    with pytest.raises(ss.Refused, match="cannot be checked in opset 6"):
        ss.generalize([make("MaxPool", n) for n in (6, 10)], {"x[2]": "seq"})


def test_an_axis_that_was_0_in_an_export_may_be_0() -> None:
    def make(past: int, seq: int) -> onnx.ModelProto:
        made = model([node("Concat", "p x", axis=0)], {}, [seq])
        made.graph.input.insert(0, onnx.helper.make_tensor_value_info("p", 1, [past]))
        return made

    made = ss.generalize([make(0, 3), make(5, 4)], {"p[0]": "past", "x[0]": "seq"})
    assert [str(t) for t in ss.analyze(made).contract] == ["seq >= 1"]


def test_a_sum_that_is_divided_keeps_to_its_progression() -> None:
    def make(past: int, seq: int) -> onnx.ModelProto:
        kind = onnx.helper.make_tensor_value_info
        inputs = [kind("p", 1, [past]), kind("x", 1, [seq])]
        nodes = [node("Concat", "p x", "a", axis=0), node("Slice", "a b c d e")]
        made = model(nodes, {"b": ints(0), "c": ints(1 << 40), "d": ints(0), "e": ints(2)}, [seq])
        del made.graph.input[:]
        made.graph.input.extend(inputs)
        return made

    made = ss.generalize([make(4, 7), make(6, 13)], {"p[0]": "past", "x[0]": "seq"})
    analysis = ss.analyze(made)
    accepted = [
        (p, x) for p in range(12) for x in range(40) if not analysis.check_inputs({"p": (p,), "x": (x,)})
    ]
    assert accepted == [(p, x) for p in range(2, 12, 2) for x in range(1, 40, 6) if (p + x) % 8 == 3]


STEPS = [
    ("stride", 2),
    ("stride", 3),
    ("pool", 2),
    ("pad", 4),
    ("pad", 8),
    ("resize", 4),
    ("windows", 2),
    ("windows", 4),
]


@pytest.mark.parametrize("seed", share(range(8), 2))
def test_random_images_at_sizes_inside_the_contract(seed: int) -> None:
    rng = random.Random(seed)
    steps = [rng.choice(STEPS) for _ in range(rng.randint(1, 4))]

    def build(height: int, width: int) -> onnx.ModelProto:
        image = Image(height, width)
        for name, number in steps:
            getattr(image, name)(number)
        return image.model()

    step = rng.choice([16, 24, 32, 48])
    first, second = (2 * step, 4 * step), (3 * step, 6 * step)
    try:
        made = at([first, second], build)
    except ss.Refused:
        return  # nothing is claimed
    analysis, tried = ss.analyze(made), 0
    for _ in range(300):
        size = [n + rng.randint(-40, 80) for n in rng.choice([first, second])]
        size = [n - n % step if rng.random() < 0.7 else n for n in size]
        shape = (1, 2, *size)
        if min(size) < 1 or analysis.check_inputs({"x": shape}):
            continue
        x = rng.random() + np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(
            run(made, x), run(build(*size), x), rtol=1e-3, atol=1e-4, err_msg=f"{size} {steps}"
        )
        tried += 1
        if tried == 3:
            return
    assert tried, f"no size but those of the exports: {analysis.contract}"


def test_the_command_says_what_the_model_rests_on(tmp_path: Path) -> None:
    for n in (64, 128):
        onnx.save(halved(n), tmp_path / f"{n}.onnx")
    words = ["generalize", *(str(tmp_path / f"{n}.onnx") for n in (64, 128)), "--dim", "x[1]=seq", "-o"]
    words += [str(tmp_path / "out.onnx")]
    told = CliRunner().invoke(app, words).stdout
    assert "rests on: exports at seq = 64, 128" in told
    assert "an export at seq = 96 would admit seq % 32 == 0" in " ".join(told.split())
    assert "extrapolated: seq > 128" in told
    data = json.loads(CliRunner().invoke(app, [*words, "--json", "--force"]).stdout)
    assert data["sizes"][0]["condition"] == "seq % 64 == 0"
