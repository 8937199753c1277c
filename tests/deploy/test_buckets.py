"""Buckets have the padding of the best choice that trying them all finds, and are accepted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations, product
from math import prod
from operator import ge
from pathlib import Path
from random import Random
from typing import Any

import onnx.parser
import pytest
from click.testing import CliRunner

import shapesolve as ss
from shapesolve.cli import app
from shapesolve.deploy import NoSizes, Sizes
from shapesolve.deploy.profiles.bucketing import read_sizes

from .test_profiles import pairs

ROOT = Path(__file__).resolve().parents[2]
CONDITIONS = [
    "m % 8 == 0",
    "m % 5 <= 1",
    "m % 3 == 2 or m >= 20",
    "m + n <= 24",
    "m == 2*n",
    "m*n == 24",
    "n >= 1",
]


def least_padding(accepted: list[int], seen: list[int], k: int) -> int | None:
    """The best of all choices."""
    best = None
    for count in range(1, k + 1):
        for chosen in combinations(accepted, count):
            if chosen[-1] >= max(seen):
                padding = sum(min(b for b in chosen if b >= s) - s for s in seen)
                best = padding if best is None else min(best, padding)
    return best


@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_choice_has_less_padding(condition: str) -> None:
    a = pairs(condition)
    accepted = [m for m in range(30) if any(a.contract.holds({"m": m, "n": n}) for n in range(31))]
    rng = Random(condition)
    for k in (1, 2, 3, 4):
        seen = [rng.randint(0, max(accepted)) for _ in range(rng.randint(1, 9))]
        found = ss.buckets(a, seen, "m", k)
        assert found.proved
        assert len(found) <= k
        assert found.padding == least_padding(accepted, seen, k), (seen, k)
        assert found.padding == sum(min(b.size for b in found if b.size >= s) - s for s in seen)
        assert sum(b.count for b in found) == len(seen)
        for bucket in found:
            shapes = Sizes(a).shapes(bucket.sizes)
            assert shapes is not None
            assert bucket.sizes["m"] == bucket.size
            assert a.check_inputs(shapes) == []


# ---------------------------------------------------------------------- several symbols

JOINT = {
    "m % 4 == 0": lambda m, n: m % 4 == 0,
    "m % 3 == 0 and n % 5 <= 1": lambda m, n: m % 3 == 0 and n % 5 <= 1,
    "m == 2*n": lambda m, n: m == 2 * n,
    "m + n <= 24": lambda m, n: m + n <= 24,
    "m*n % 12 == 0": lambda m, n: m * n % 12 == 0,
    "m <= 2*n + 3": lambda m, n: m <= 2 * n + 3,
    "(m + n) % 7 == 2 or m >= 9": lambda m, n: (m + n) % 7 == 2 or m >= 9,
    "n >= 1": lambda m, n: n >= 1,
}


def blocks(items: list[Any], most: int) -> Iterator[list[list[Any]]]:
    """All ways to part items into at most so many blocks."""
    if not items:
        yield []
        return
    for rest in blocks(items[1:], most):
        if len(rest) < most:
            yield [[items[0]], *rest]
        for i in range(len(rest)):
            yield [*rest[:i], [items[0], *rest[i]], *rest[i + 1 :]]


def least_of_boxes(accepts: Any, seen: dict[tuple[int, ...], int], k: int, largest: int = 60) -> int | None:
    """The least padding of all ways to part what was seen, each block in the smallest accepted box around it."""
    rank = len(next(iter(seen)))
    boxes = sorted((prod(box), box) for box in product(range(largest), repeat=rank) if accepts(*box))
    best = None
    for parts in blocks(list(seen), k):
        padding: int | None = 0
        for part in parts:
            low = [max(sizes[axis] for sizes in part) for axis in range(rank)]
            volume = next((v for v, box in boxes if all(map(ge, box, low))), None)
            if volume is None or padding is None:
                padding = None
                break
            padding += sum((volume - prod(s)) * seen[s] for s in part)
        if padding is not None and (best is None or padding < best):
            best = padding
    return best


@pytest.mark.parametrize("condition", JOINT)
def test_no_boxes_have_less_padding(condition: str) -> None:
    a, accepts, rng = pairs(condition), JOINT[condition], Random(condition)
    for _ in range(13):
        drawn = [(rng.randint(0, 9), rng.randint(1, 9)) for _ in range(rng.randint(1, 6))]
        seen = {sizes: rng.randint(1, 4) for sizes in drawn}
        k = rng.randint(1, 3)
        best = least_of_boxes(accepts, seen, k)
        if best is None:
            with pytest.raises(NoSizes):
                ss.buckets(a, seen, ("m", "n"), k)
            continue
        found = ss.buckets(a, seen, ("m", "n"), k)
        assert found.proved
        assert len(found) <= k
        assert found.padding == best, (seen, k)
        assert sum(b.count for b in found) == sum(seen.values())
        for b in found:
            assert b.size == b.sizes["m"] * b.sizes["n"]
            assert accepts(b.sizes["m"], b.sizes["n"])


TRIPLES = {
    "m % 4 == 0": lambda m, n, r: m % 4 == 0,
    "m % 2 == 0 and r % 3 <= 1": lambda m, n, r: m % 2 == 0 and r % 3 <= 1,
    "m == n + r": lambda m, n, r: m == n + r,
    "m + n + r <= 20": lambda m, n, r: m + n + r <= 20,
    "m*n % 6 == 0 and r >= 2": lambda m, n, r: m * n % 6 == 0 and r >= 2,
}


@pytest.mark.parametrize("condition", TRIPLES)
def test_no_boxes_of_three_symbols_have_less_padding(condition: str) -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
        g (float[m] a, float[n] b, float[r] c) => (x, y, z) { x = Relu(a) y = Relu(b) z = Relu(c) }"""
    a = ss.analyze(onnx.parser.parse_model(text), assume=[condition])
    accepts, rng = TRIPLES[condition], Random(condition)
    for _ in range(20):
        drawn = [tuple(rng.randint(1, 6) for _ in range(3)) for _ in range(rng.randint(1, 5))]
        seen, k = {sizes: rng.randint(1, 4) for sizes in drawn}, rng.randint(1, 3)
        best = least_of_boxes(accepts, seen, k, largest=21)
        if best is None:
            with pytest.raises(NoSizes):
                ss.buckets(a, seen, ("m", "n", "r"), k)
            continue
        found = ss.buckets(a, seen, ("m", "n", "r"), k)
        assert found.proved
        assert found.padding == best, (seen, k)
        assert all(accepts(*(b.sizes[n] for n in ("m", "n", "r"))) for b in found)


def test_boxes_of_traffic_are_proved_the_best() -> None:
    rng = Random(0)
    seen = [(rng.choice((1, 2, 4, 8)), min(512, int(rng.expovariate(1 / 90)) + 1)) for _ in range(200)]
    found = ss.buckets(pairs("n % 16 == 0 and m <= 8"), seen, ("m", "n"), 6)
    assert found.proved
    assert len(found) == 6
    fewer = ss.buckets(pairs("n % 16 == 0 and m <= 8"), seen, ["m", "n"], 3)
    assert found.padding < fewer.padding
    assert found.total == fewer.total == sum(m * n for m, n in seen)
    alone = ss.buckets(pairs("n % 16 == 0 and m <= 8"), [n for _, n in seen], ("n",), 6)
    assert alone.padding == ss.buckets(pairs("n % 16 == 0 and m <= 8"), [n for _, n in seen], "n", 6).padding


def test_sizes_of_several_symbols_are_read_and_checked(tmp_path: Path) -> None:
    (tmp_path / "seen.csv").write_text("n,count,m\n3,10,9\n5,2,9\n", "utf-8")
    assert read_sizes(tmp_path / "seen.csv", "m", "n") == {(9, 3): 10, (9, 5): 2}
    with pytest.raises(ValueError, match="has no column 'seq'"):
        read_sizes(tmp_path / "seen.csv", "m", "seq")
    command = [
        "sizes",
        str(ROOT / "examples/unet.onnx"),
        "--symbols",
        "height,width",
        "--k",
        "1",
        "--buckets",
    ]
    (tmp_path / "traffic.csv").write_text("height,width\n100,20\n12,60\n", "utf-8")
    done = CliRunner().invoke(app, [*command, str(tmp_path / "traffic.csv")])
    assert done.output.splitlines()[0] == "height = 104, width = 64  holds 2, padding 10592  with batch = 1"
    for wrong in (("m", "m"), (), ("m", "n", "o", "p")):
        with pytest.raises(ValueError, match="1 to 3 different symbols"):
            ss.buckets(pairs("n >= 1"), [(1, 2)], wrong)
    with pytest.raises(ValueError, match="a tuple of 2 sizes"):
        ss.buckets(pairs("n >= 1"), [(1, 2, 3)], ("m", "n"))


def test_other_names_may_be_bound() -> None:
    a = pairs("m == 2*n or m == 3*n")
    assert [b.size for b in ss.buckets(a, [5, 13], "m", 2, bind={"n": 7})] == [14]
    assert [b.sizes for b in ss.buckets(a, {5: 1, 13: 4}, "m", 2)] == [{"m": 6, "n": 2}, {"m": 14, "n": 7}]


def test_a_size_that_nothing_holds_is_told() -> None:
    a = pairs("m <= 512")
    with pytest.raises(
        NoSizes, match=r"no accepted size of m is at least 600: m must be at most 512, got 600"
    ):
        ss.buckets(a, [3, 600], "m")
    with pytest.raises(ValueError, match="unknown dim 'sec'"):
        ss.buckets(a, [3], "sec")
    with pytest.raises(ValueError, match="no sizes were given"):
        ss.buckets(a, [], "m")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3\n5\n3\n", {3: 2, 5: 1}),
        ("seq,other\n3,9\n\n5,9\n", {3: 1, 5: 1}),
        ("other,seq,count\r\n9,3,10\r\n8,5,2\r\n", {3: 10, 5: 2}),
        ("\ufefflength\n7\n", {7: 1}),
    ],
)
def test_sizes_are_read_from_csv(text: str, expected: dict[int, int], tmp_path: Path) -> None:
    (tmp_path / "seen.csv").write_text(text, "utf-8")
    assert read_sizes(tmp_path / "seen.csv", "seq") == expected


def test_what_is_no_size_is_told_with_its_line(tmp_path: Path) -> None:
    for text, line in (("3\n-5\n", 2), ("seq\n3\n4.5\n", 3), ("3\n99999999999\n", 2)):
        (tmp_path / "seen.csv").write_text(text, "utf-8")
        with pytest.raises(ValueError, match=f"line {line}"):
            read_sizes(tmp_path / "seen.csv", "seq")


def test_the_command(tmp_path: Path) -> None:
    unet, seen = str(ROOT / "examples/unet.onnx"), tmp_path / "seen.csv"
    seen.write_text("height\n" + "\n".join(["100"] * 9 + ["260", "250", "12"]), "utf-8")
    done = CliRunner().invoke(app, ["sizes", unet, "--buckets", str(seen), "--symbol", "height", "--k", "2"])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[:2] == [
        "height = 104  holds 10, padding 128  with batch = 1, width = 8",
        "height = 264  holds 2, padding 18  with batch = 1, width = 8",
    ]
    done = CliRunner().invoke(
        app, ["sizes", unet, "--buckets", str(seen), "--symbol", "height", "--k", "2", "--json"]
    )
    assert json.loads(done.output)["padding"] == 146
    assert CliRunner().invoke(app, ["sizes", unet, "--buckets", str(seen)]).exit_code == 2
    assert (
        CliRunner()
        .invoke(app, ["sizes", unet, "--buckets", str(tmp_path / "no"), "--symbol", "height"])
        .exit_code
        == 2
    )


def test_buckets_are_written_as_profiles(tmp_path: Path) -> None:
    seen = tmp_path / "seen.csv"
    seen.write_text("height,width\n8,8\n20,40\n60,60\n", "utf-8")
    command = [
        "sizes",
        str(ROOT / "examples/unet.onnx"),
        "--buckets",
        str(seen),
        "--symbols",
        "height,width",
        "--k",
        "2",
    ]
    found = ss.buckets(
        ROOT / "examples/unet.onnx", {(8, 8): 1, (20, 40): 1, (60, 60): 1}, ("height", "width"), 2
    )
    shapes = [f"1x3x{b.sizes['height']}x{b.sizes['width']}" for b in found]
    done = CliRunner().invoke(app, [*command, "--for", "trtexec"])
    assert done.exit_code == 0, done.output
    assert [line for line in done.output.split() if "Shapes" in line] == [
        f"--{corner}Shapes=image:{shape}" for shape in shapes for corner in ("min", "opt", "max")
    ]
    text = CliRunner().invoke(app, [*command, "--for", "coreml"]).output
    assert text.count("EnumeratedShapes") == 1
    assert all(f"({shape.replace('x', ', ')},)" in text for shape in shapes)
    assert CliRunner().invoke(app, [*command, "--for", "nothing"]).exit_code == 2
