"""Numbers that decide sizes are inputs of these models: what is drawn for them runs, and differs from draw to draw."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import shapesolve as ss
from shapesolve.deploy.inputs.values import deciding_inputs

from ..building import EVERYTHING, parsed, session


def model(text: str, opset: int = 18, **stored: list[int]) -> onnx.ModelProto:
    return parsed(f"g {text}", opset, **stored)


MODELS = {
    "split_reshape": model(
        "(float[n, c] x, int64[2] t, int64[2] s) => (a, b) { r = Reshape(x, t) a, b = Split<axis = 0>(r, s) }"
    ),
    "seq": model(
        "(float[n, c] x, int64[3] s, int64 k) => (y) { q = SplitToSequence<axis = 1>(x, s) y = SequenceAt(q, k) }"
    ),
    "concat_target": model(
        "(float[n, c] x, int64[1] t) => (y) <int64[1] m1 = {-1}> { tt = Concat<axis = 0>(t, m1) "
        "y = Reshape(x, tt) }"
    ),
    "shared": model(
        "(float[n, c] x, int64[1] k) => (y, w) <int64[1] big = {2147483647}, int64[1] z = {0}, int64[1] a = {1}> "
        "{ y = Slice(x, k, big, a) w = Slice(x, z, k, a) }"
    ),
    "shared_pad": model(
        "(float[n, c] x, int64[1] k) => (y) <int64[1] z = {0}, int64[1] a = {1}> { w = Slice(x, z, k, a) "
        "y = MatMul(w, wt) }",
        wt=[4, 3],
    ),
    "scalar": model(
        "(float[n, c] x, int64 k) => (w) "
        "<int64[1] ax = {0}, int64[1] one = {1}, int64[1] z = {0}, int64[1] a = {1}> { u = Unsqueeze(k, ax) "
        "v = Add(u, one) w = Slice(x, z, v, a) }"
    ),
    "pad": model("(float[n, 3, h, w] x, int64[4] p, int64[2] a) => (y) { y = Pad(x, p, , a) }"),
    "pad_reflect": model('(float[n, c] x, int64[4] p) => (y) { y = Pad<mode = "reflect">(x, p) }'),
    "resize_sizes": model(
        '(float[n, 3, h, w] x, int64[4] s) => (y) { y = Resize<mode = "linear">(x, , , s) }'
    ),
    "resize_scales": model(
        '(float[n, 3, h, w] x, float[4] s) => (y) { y = Resize<mode = "nearest">(x, , s) }'
    ),
    "tile": model("(float[n, c] x, int64[2] r) => (y) { y = Tile(x, r) }"),
    "expand_add": model(
        "(float[n, 1] x, float[n, k] z, int64[2] e) => (w) { y = Expand(x, e) w = Add(y, z) }"
    ),
    "cos_range": model(
        "(float[n, c] x, int64 a, int64 b, int64 c) => (y) { r = Range(a, b, c) y = Gather<axis = 0>(x, r) }"
    ),
    "onehot": model("(int64[n] k, int64 d, float[2] v) => (y) { y = OneHot(k, d, v) }"),
    "topk": model("(float[n, c] x, int64[1] k) => (y, z) { y, z = TopK(x, k) }"),
    "unsq": model("(float[n, c] x, int64[2] a) => (y) { y = Unsqueeze(x, a) }"),
    "sq": model("(float[n, 1, c, 1] x, int64[1] a) => (y) { y = Squeeze(x, a) }"),
    "reduce": model("(float[n, 3, h, w] x, int64[2] a) => (y) { y = ReduceMean(x, a) }"),
    "ccp": model("(float[n, c] x, int64[2] s) => (y) { y = CenterCropPad(x, s) }"),
    "col2im": model("(float[n, 12, l] x, int64[2] s, int64[2] b) => (y) { y = Col2Im(x, s, b) }"),
    "affine": model("(float[n, 2, 3] x, int64[4] s) => (y) { y = AffineGrid(x, s) }", 20),
    "dft": model("(float[n, c, 1] x, int64 l) => (y) { y = DFT<axis = 1>(x, l) }"),
    "stft": model("(float[n, c, 1] x, int64 st, int64 l) => (y) { y = STFT(x, st, , l) }"),
    "hann": model("(float[n, c] x, int64 k) => (y) { w = HannWindow(k) y = Mul(x, w) }"),
    "mel": model(
        "(int64 a, int64 b, int64 c, float d, float e) => (y) { y = MelWeightMatrix(a, b, c, d, e) }"
    ),
    "nms": model(
        "(float[n, m, 4] b, float[n, k, m] s, int64[1] k, float[1] t, float[1] u) => (y) "
        "{ y = NonMaxSuppression(b, s, k, t, u) }"
    ),
    "unpool": model(
        "(float[n, 3, h, w] x, int64[n, 3, h, w] k) => (y) "
        "{ y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, k) }"
    ),
    "div": model("(int64[n] k, int64[n] d) => (y) { y = Div(k, d) }"),
    "divshape": model(
        "(float[n, c] x, int64[2] d) => (y) { s = Shape(x) t = Div(s, d) y = ConstantOfShape(t) }"
    ),
    "cos": model("(float[n, c] x, int64[2] t) => (w) { y = ConstantOfShape(t) w = MatMul(x, y) }"),
    "trilu": model("(float[n, c] x, int64 k) => (y) { y = Trilu(x, k) }"),
    "cumsum": model("(float[n, c] x, int64 k) => (y) { y = CumSum(x, k) }"),
    "steps": model(
        "(float[n, c] x, int64[1] a, int64[1] b, int64[1] c, int64[1] d) => (y) { y = Slice(x, a, b, c, d) }"
    ),
    "embpos": model(
        "(int64[b, s] ids, int64[1] k, int64[3] s) => (y) <int64[1] z = {0}, int64[1] one = {1}> "
        "{ e = Gather(t, ids) f = Slice(e, z, k, one) y = Reshape(f, s) }",
        t=[50, 8],
    ),
    "eye": model(
        "(int64[2] k, int64[2] k2) => (v) { t = Concat<axis = 0>(k, k2) y = ConstantOfShape(t) v = Conv(y, w) }",
        w=[2, 3, 3, 3],
    ),
    "bshift": model('(uint8[n] x8, uint8[1] k) => (y) { y = BitShift<direction = "LEFT">(x8, k) }'),
    "mod": model("(int32[n] k, int32 d) => (y) { y = Mod(k, d) }"),
    "modcast": model("(int64[n] k, int32 d) => (y) { e = Cast<to = 7>(d) y = Mod(k, e) }"),
    "compress": model("(float[n, c] x, bool[k] c) => (y) { y = Compress<axis = 0>(x, c) }"),
    "scatnd": model("(float[n, c] x, int64[p, 1] k, float[p, c] u) => (y) { y = ScatterND(x, k, u) }"),
    "revseq": model(
        "(float[t, b, c] x, int64[b] l) => (y) { y = ReverseSequence<batch_axis = 1, time_axis = 0>(x, l) }"
    ),
    "negslice": model(
        "(float[n, c] x, int64[1] k) => (y) <int64[1] e = {2147483647}, int64[1] a = {1}> { nk = Neg(k) "
        "y = Slice(x, nk, e, a) }"
    ),
    "subk": model(
        "(float[n, c] x, int64[1] k) => (y) <int64[1] one = {1}, int64[1] big = {2147483647}, int64[1] a = {1}> "
        "{ s = Shape(x) c = Gather(s, one) d = Sub(c, k) y = Slice(x, d, big, a) }"
    ),
    "reshape_split_concat": model(
        "(float[n, c] x, int64[2] t) => (y) { r = Reshape(x, t) q = Transpose(r) y = MatMul(r, q) }"
    ),
    "unpooled_img": model(
        "(float[n, k] x, int64[4] t) => (y) { r = Reshape(x, t) y = Conv(r, w) }", w=[2, 3, 3, 3]
    ),
    "parts of many": model(
        "(float[n, c] x, int64[parts] s, int64 k) => (y) <int64 k0 = {0}> { q = SplitToSequence<axis = 0>(x, s) "
        "y = SequenceAt(q, k) }"
    ),
    "divided before it is a target": model(
        "(float[n, c] x, int64[1] d) => (y) { s = Shape(x) q = Div(s, d) t = Mul(q, d) y = Reshape(x, t) }"
    ),
    "an image of known blocks": model(
        "(float[n, 12, l] x, int64[2] s) => (y) <int64[2] b = {2, 2}> { y = Col2Im(x, s, b) }"
    ),
    "places in what is made": model(
        "(int64[2] s, int64[n] k) => (y) { o = ConstantOfShape(s) y = Gather(o, k) }"
    ),
    "places in what computed sizes make": model(
        "(float[n, 3] x, int64[n] segment, int64[1] count) => (y) <int64[1] three = {3}, int64[1] one = {1}> "
        "{ s = Concat<axis = 0>(count, three) z = ConstantOfShape(s) i = Unsqueeze(segment, one) xs = Shape(x) "
        'full = Expand(i, xs) y = ScatterElements<axis = 0, reduction = "add">(z, full, x) }'
    ),
    "offsets": model(
        "(float[total, 4] x, int64[ends] cu) => (y) "
        "<int64[1] one = {1}, int64[1] zero = {0}, int64[1] minus1 = {-1}, "
        "int64[1] big = {2147483648}, int64 first = {0}> "
        "{ hi = Slice(cu, one, big) lo = Slice(cu, zero, minus1) d = Sub(hi, lo) "
        "parts = SplitToSequence<axis = 0>(x, d) y = SequenceAt(parts, first) }"
    ),
    "one scale for two axes": model(
        "(float[n, 3, h, w] x, float[1] scale) => (y) <float[2] ones = {1, 1}> "
        '{ s = Concat<axis = 0>(ones, scale, scale) r = Resize<mode = "nearest">(x, , s) '
        "y = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]>(r, w) }",
        w=[8, 3, 3, 3],
    ),
    "a ratio of sizes": model(
        "(float[1, 3, h, w] x, int64[2] target) => (y) <int64[2] nc = {1, 3}> { hw = Shape<start = 2>(x) "
        "hwf = Cast<to = 1>(hw) tf = Cast<to = 1>(target) ratios = Div(tf, hwf) ratio = ReduceMin(ratios) "
        "nf = Mul(hwf, ratio) n2 = Cast<to = 7>(nf) sizes = Concat<axis = 0>(nc, n2) "
        'y = Resize<mode = "linear">(x, , , sizes) }'
    ),
    "where rows begin in a whole": model(
        "(float[n, c] x, int64[parts] splits) => (y) "
        "<int64[1] k0 = {0}, int64[1] k1 = {1}, int64[1] last = {-1}, int64[1] end = {2147483647}, "
        "int64 zero = {0}, int64 one = {1}> "
        "{ from = Slice(splits, k0, last) to = Slice(splits, k1, end) lengths = Sub(to, from) "
        "most = ReduceMax<keepdims = 0>(lengths) steps = Range(zero, most, one) column = Unsqueeze(lengths, k1) "
        "valid = Less(steps, column) first = Unsqueeze(from, k1) at = Add(first, steps) "
        "rows = Where(valid, at, zero) y = Gather(x, rows) }"
    ),
    "a ratio": model("(float[n, c] x, float r, bool t) => (y) { y = Dropout(x, r, t) }"),
}


@pytest.mark.parametrize("name", MODELS)
def test_numbers_that_decide_sizes_run(name: str) -> None:
    runs = session(MODELS[name])
    for feed in ss.generate_inputs(MODELS[name], count=20 if EVERYTHING else 2):
        runs.run(None, feed)


@pytest.mark.parametrize("name", ["split_reshape", "topk", "tile", "resize_sizes"])
def test_numbers_differ(name: str) -> None:
    feeds = ss.generate_inputs(
        MODELS[name], count=20, bind=dict.fromkeys(ss.analyze(MODELS[name]).symbols, 6)
    )
    short = [n for n in feeds[0] if len(n) == 1 and n != "x"]
    assert all(len({tuple(np.ravel(f[n])) for f in feeds}) > 2 for n in short)


def test_sizes_that_no_numbers_suit_are_none() -> None:
    thirds = model("(float[n, 5] x, int64[2] t) => (y) { r = Reshape(x, t) y = MatMul(r, w) }", w=[3, 3])
    runs = session(thirds)
    for feed in ss.generate_inputs(thirds, count=12):
        runs.run(None, feed)
    with pytest.raises(ValueError, match=r"input t|n"):
        ss.generate_inputs(thirds, count=2, bind={"n": 2})


def test_sizes_and_numbers_that_hang_together_are_found_together() -> None:
    """Few pairs of sizes suit any number of repeats: those drawn are moved to some that do, and numbers are not always 1."""
    repeated = model(
        "(float[batch, 4] x, float[rows, 4] y, int64[1] beams) => (z) <int64[1] one = {1}>"
        " { r = Concat<axis = 0>(beams, one) t = Tile(x, r) z = Add(t, y) }"
    )
    runs = session(repeated)
    feeds = ss.generate_inputs(repeated, count=10)
    for feed in feeds:
        runs.run(None, feed)
    assert len({int(feed["beams"][0]) for feed in feeds}) > 2
    assert all(feed["y"].shape == (12, 4) for feed in ss.generate_inputs(repeated, 4, bind={"rows": 12}))


def test_what_only_gives_its_shape_decides_nothing() -> None:
    """Tokens whose shape is the target of an Expand are drawn as indices, not tried."""
    tokens = model(
        "(int64[batch, seq] ids) => (y) <int64[1, 1] zero = {0}>"
        " { s = Shape(ids) types = Expand(zero, s) i = Add(ids, types) y = Gather(table, i) }",
        table=[9, 2],
    )
    assert deciding_inputs(ss.analyze(tokens)) == []


def test_what_is_guessed_is_said_once_in_the_sizes_of_the_model() -> None:
    guesses = ss.generate_inputs(MODELS["places in what computed sizes make"], 20).guesses
    assert len([g for g in guesses if g.startswith("segment: 0 to ")]) == 1
