"""Padding along an axis whose size is freed: what windows explain stays or follows, the rest is refused."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

import shapesolve as ss

from .test_free import ints, model, node
from .test_free_rows import run

#: extent, stride and dilation of each axis of each convolution
CONVS = [((5, 3, 1), (5, 3, 1)), ((3, 2, 2), (3, 2, 2)), ((3, 2, 1), (4, 1, 1))]


def same(size: int, extent: int, stride: int, dilation: int) -> tuple[int, int, int]:
    """How many places there are after a convolution, and what is padded before and after."""
    many = -(-size // stride)
    total = max((many - 1) * stride + (extent - 1) * dilation + 1 - size, 0)
    return many, total // 2, total - total // 2


def convolved(
    height: int, width: int, convs: Sequence[Sequence[tuple[int, int, int]]], how: str, off: int = 0
) -> onnx.ModelProto:
    """Convolutions with `SAME` padding for these sizes, as attributes or as nodes of their own; `off` is added to the first."""
    rng = np.random.default_rng(0)
    nodes, stored, name, sizes = [], {}, "x", [height, width]
    for k, conv in enumerate(convs):
        found = [same(size, *axis) for size, axis in zip(sizes, conv, strict=True)]
        sizes = [many for many, _, _ in found]
        before, after = [b for _, b, _ in found], [a for _, _, a in found]
        after[0] += off if not k else 0
        stored[f"w{k}"] = rng.standard_normal((2, 2, *[extent for extent, _, _ in conv])).astype(np.float32)
        rest = {"strides": [s for _, s, _ in conv], "dilations": [d for _, _, d in conv]}
        last = "y" if k + 1 == len(convs) else f"c{k}"
        if how == "attribute":
            nodes.append(node("Conv", f"{name} w{k}", last, pads=[*before, *after], **rest))
        else:
            stored[f"p{k}"] = ints(0, 0, *before, 0, 0, *after)
            nodes += [
                node("Pad", f"{name} p{k}", f"padded{k}"),
                node("Conv", f"padded{k} w{k}", last, **rest),
            ]
        name = last
    return model(nodes, stored, [1, 2, height, width])


@pytest.mark.parametrize("how", ["attribute", "node"])
@pytest.mark.parametrize(("batch", "height", "width"), [(1, 97, 131), (3, 30, 17), (2, 1, 64)])
def test_padding_that_is_shown_to_follow_the_size(how: str, batch: int, height: int, width: int) -> None:
    fixed = convolved(97, 131, CONVS, how)
    changed = ss.free(fixed, {"x[0]": "batch", "x[2]": "height", "x[3]": "width"})
    x = np.random.default_rng(width).standard_normal((batch, 2, height, width)).astype(np.float32)
    original = convolved(height, width, CONVS, how)
    want = np.concatenate([run(original, x[i : i + 1]) for i in range(batch)])
    np.testing.assert_allclose(run(changed, x), want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("how", ["attribute", "node"])
def test_one_amount_alone_shows_nothing(how: str) -> None:
    """Of ``3`` before a stride of 3 nobody knows whether it is that of 131 or of any size."""
    with pytest.raises(ss.Refused, match="may have followed"):
        ss.free(convolved(131, 131, CONVS[:1], how), {"x[3]": "width"})


@pytest.mark.parametrize("how", ["attribute", "node"])
def test_one_amount_that_does_not_fit_is_a_reason_to_refuse(how: str) -> None:
    with pytest.raises(ss.Refused, match="may have followed"):
        ss.free(convolved(97, 131, CONVS, how, off=1), {"x[3]": "width"})


@pytest.mark.parametrize("length", [9, 1, 20])
def test_padding_that_keeps_the_number_of_places_stays(length: int) -> None:
    """As before a causal convolution: all of it at the start."""
    weights = np.random.default_rng(0).standard_normal((2, 2, 4)).astype(np.float32)
    fixed = model(
        [node("Pad", "x p", "padded"), node("Conv", "padded w", dilations=[2])],
        {"p": ints(0, 0, 6, 0, 0, 0), "w": weights},
        [1, 2, 9],
    )
    changed = ss.free(fixed, {"x[0]": "batch", "x[2]": "length"})
    x = np.random.default_rng(length).standard_normal((2, 2, length)).astype(np.float32)
    late = np.pad(x, [(0, 0), (0, 0), (6, 0)])
    want = sum(np.einsum("oc,bcl->bol", weights[..., k], late[..., 2 * k : 2 * k + length]) for k in range(4))
    np.testing.assert_allclose(run(changed, x), want, rtol=1e-4, atol=1e-5)


def test_uneven_padding_along_another_axis_is_no_reason_to_refuse() -> None:
    weights = np.random.default_rng(0).standard_normal((2, 2, 3, 1)).astype(np.float32)
    fixed = model([node("Conv", "x w", pads=[0, 0, 1, 0], strides=[2, 1])], {"w": weights}, [1, 2, 6, 9])
    changed = ss.free(fixed, {"x[3]": "width"})
    x = np.random.default_rng(1).standard_normal((1, 2, 6, 4)).astype(np.float32)
    whole = np.concatenate([x, np.zeros((1, 2, 6, 5), np.float32)], axis=3)
    np.testing.assert_allclose(run(changed, x), run(fixed, whole)[..., :4], rtol=1e-5)
    with pytest.raises(ss.Refused, match="by 0 and 1, along an axis of size height"):
        ss.free(fixed, {"x[2]": "height"})


def shifted(length: int, *, joined: bool) -> onnx.ModelProto:
    """The places after this one, and nothing behind the last, beside what is here (as in MobileBERT's embeddings)."""
    nodes = [node("Slice", "x one many axis", "rest"), node("Pad", "rest p", "later" if joined else "y")]
    if joined:
        nodes.append(node("Concat", "later x", axis=1))
    stored = {"one": ints(1), "many": ints(2**62), "axis": ints(2), "p": ints(0, 0, 0, 0, 0, 1)}
    return model(nodes, stored, [1, 2, length])


@pytest.mark.parametrize("length", [9, 1, 20])
def test_padding_that_a_join_needs_at_every_size_stays(length: int) -> None:
    changed = ss.free(shifted(9, joined=True), {"x[0]": "batch", "x[2]": "length"})
    x = np.random.default_rng(length).standard_normal((2, 2, length)).astype(np.float32)
    want = np.concatenate([np.pad(x[:, :, 1:], [(0, 0), (0, 0), (0, 1)]), x], axis=1)
    np.testing.assert_array_equal(run(changed, x), want)


def test_padding_that_nothing_needs_is_refused() -> None:
    with pytest.raises(ss.Refused, match="may have followed"):
        ss.free(shifted(9, joined=False), {"x[2]": "length"})
