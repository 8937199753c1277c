"""Damaged and hostile model files: an analysis or one `ModelError` in a sentence, within a few seconds and a gigabyte.

Each seed takes a small model, changes its bytes or its fields, and puts it through the library and the command line.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import onnx
from click.testing import CliRunner
from google.protobuf.message import DecodeError, Message
from onnx import TensorProto

import shapesolve
from shapesolve.cli import app

from .isolate import Lost, Worker, answers
from .judge import place_of
from .model import drawn_model

ROOT = Path(__file__).parents[2]
#: real models of at most so many bytes are changed, besides drawn ones
_LARGEST = 200_000
#: numbers that overflow something
HUGE = (0, -1, 1, 2, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63), -(2**31))
#: names that paths, terminals, reports and formats may take for something else
NAMES = (
    "", " ", "a" * 5000, "../../../etc/passwd", "/dev/zero", "C:\\x", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "a\nb",
    "::error file=x::y", "</script><script>alert(1)</script>", "a\x00b", "\x9b31m", "\u202eabc", "%s%n{0}", "x0", "é",
    "a == 1; import os", "__import__('os')", "N", "2*N", "N//0", "0", "-5", "9" * 400, "(" * 2000, "N" + "+1" * 900,
    "2**2**2**2", "min(" * 300, "\ud7ff", "'\"", "`rm`", "a,b", "\r\n", "N % 0", "1e999", "inf", "nan",
)  # fmt: skip
FORMATS = ("text", "json", "sarif", "github")


@dataclass
class Outcome:
    """What came of one file."""

    refused: int = 0
    wrong: list[tuple[str, str]] = field(default_factory=list)


def seeds_of() -> list[Path]:
    """The small real models."""
    found = [*ROOT.glob("tests/models/**/model.onnx"), *ROOT.glob("examples/*.onnx")]
    return sorted(p for p in found if p.stat().st_size <= _LARGEST)


def original(random: Random) -> bytes:
    """A model that is sound."""
    if random.random() < 0.5:
        return drawn_model(random.randrange(10_000)).model.SerializeToString()
    return random.choice(seeds_of()).read_bytes()


# ---------------------------------------------------------------- bytes


def flipped(random: Random, data: bytes) -> bytes:
    """Some bits are others."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5, 40))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def truncated(random: Random, data: bytes) -> bytes:
    """The file ends early."""
    return data[: random.randrange(len(data))]


def spliced(random: Random, data: bytes) -> bytes:
    """A piece is somewhere else, or there twice."""
    a, b = sorted(random.randrange(len(data)) for _ in range(2))
    at = random.randrange(len(data))
    return data[:at] + data[a : min(b, a + 400)] + data[at + random.choice((0, 0, b - a)) :]


def overwritten(random: Random, data: bytes) -> bytes:
    """A run of bytes is noise, or 0xff (the longest of varints)."""
    at, n = random.randrange(len(data)), random.choice((1, 4, 10, 100))
    noise = random.choice((b"\xff" * n, b"\x00" * n, random.randbytes(n)))
    return data[:at] + noise + data[at + n :]


# ---------------------------------------------------------------- fields


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for described, value in message.ListFields():
        if described.message_type is not None:
            for inner in value if described.is_repeated else [value]:
                yield from _messages(inner)


def _changed_field(random: Random, message: Message) -> None:
    """Any field of a message takes a hostile value, goes away, comes twice or in another order."""
    described = random.choice(list(message.DESCRIPTOR.fields))
    name, repeated = described.name, described.is_repeated
    draw = random.random()
    if draw < 0.15:
        message.ClearField(name)
        return
    if described.message_type is not None:
        if repeated and len(getattr(message, name)):
            _reordered(random, getattr(message, name))
        return
    value = _hostile(random, described)
    if not repeated:
        setattr(message, name, value)
    elif getattr(message, name) and draw < 0.6:
        getattr(message, name)[random.randrange(len(getattr(message, name)))] = value
    else:
        getattr(message, name).extend([value] * random.choice((1, 1, 3, 2000)))


def _reordered(random: Random, items: Any) -> None:
    i, j = random.randrange(len(items)), random.randrange(len(items))
    draw = random.randrange(4)
    if draw == 0:
        del items[i]
    elif draw == 1:
        items.add().CopyFrom(items[i])
    elif draw == 2:
        copy = type(items[i])()
        copy.CopyFrom(items[i])
        items[i].CopyFrom(items[j])
        items[j].CopyFrom(copy)
    else:
        for _ in range(random.choice((2, 300))):
            items.add().CopyFrom(items[i])


def _hostile(random: Random, described: Any) -> Any:
    kind = described.cpp_type
    if kind in (described.CPPTYPE_INT64, described.CPPTYPE_INT32):
        bits = 63 if kind == described.CPPTYPE_INT64 else 31
        return max(-(2**bits), min(2**bits - 1, random.choice(HUGE)))
    if kind in (described.CPPTYPE_UINT64, described.CPPTYPE_UINT32):
        return min(2**32 - 1, abs(random.choice(HUGE)))
    if kind in (described.CPPTYPE_FLOAT, described.CPPTYPE_DOUBLE):
        return random.choice((float("nan"), float("inf"), -1e38, 0.0, 1e-40))
    if kind == described.CPPTYPE_STRING:
        name = random.choice(NAMES)
        return name if described.type == described.TYPE_STRING else name.encode()
    if kind == described.CPPTYPE_ENUM:
        return random.choice([v.number for v in described.enum_type.values])
    return random.choice((True, False))


def with_fields(random: Random, data: bytes) -> bytes:
    """Fields of some messages are others."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(random.choice((1, 1, 2, 4, 12))):
        target = random.choice(list(_messages(model)))
        with contextlib.suppress(ValueError, TypeError):  # protobuf refuses the value by itself
            _changed_field(random, target)
    return model.SerializeToString()


def with_sizes(random: Random, data: bytes) -> bytes:
    """Shapes, axes and what is stored in small vectors hold huge numbers."""
    model = onnx.ModelProto.FromString(data)
    for message in _messages(model):
        if random.random() < 0.7:
            continue
        if isinstance(message, onnx.TensorShapeProto.Dimension):
            message.dim_value = random.choice(HUGE)
        elif isinstance(message, onnx.AttributeProto) and message.ints:
            message.ints[random.randrange(len(message.ints))] = random.choice(HUGE)
        elif isinstance(message, onnx.AttributeProto) and message.type == onnx.AttributeProto.INT:
            message.i = random.choice(HUGE)
        elif isinstance(message, TensorProto) and message.data_type == TensorProto.INT64 and message.raw_data:
            values = [random.choice(HUGE) for _ in range(len(message.raw_data) // 8)]
            message.raw_data = b"".join(v.to_bytes(8, "little", signed=True) for v in values)
        elif isinstance(message, TensorProto) and message.dims:
            message.dims[random.randrange(len(message.dims))] = random.choice(HUGE)
    return model.SerializeToString()


def with_names(random: Random, data: bytes) -> bytes:
    """One name is another throughout; dims, nodes and functions have hostile ones."""
    model = onnx.ModelProto.FromString(data)
    for message in _messages(model):
        if random.random() < 0.8:
            continue
        if isinstance(message, onnx.TensorShapeProto.Dimension):
            message.dim_param = random.choice(NAMES)
        elif isinstance(message, onnx.NodeProto):
            message.name = random.choice(NAMES)
            if random.random() < 0.2:
                message.op_type = random.choice(NAMES)
            if random.random() < 0.2:
                message.domain = random.choice(NAMES)
            if message.output and random.random() < 0.2:
                message.output[0] = random.choice(NAMES)
        elif isinstance(message, (onnx.GraphProto, onnx.FunctionProto)):
            message.name = random.choice(NAMES)
    return model.SerializeToString()


def with_paths(random: Random, data: bytes) -> bytes:
    """Stored tensors lie in other files, which are not there or not to be read."""
    model = onnx.ModelProto.FromString(data)
    for tensor in [m for m in _messages(model) if isinstance(m, TensorProto)]:
        if random.random() < 0.5:
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            place = random.choice((*NAMES[:7], "/dev/stdin", "/proc/self/mem", "weights.bin", "."))
            tensor.external_data.add(key="location", value=place)
            tensor.external_data.add(key="offset", value=str(random.choice(HUGE)))
            tensor.external_data.add(key="length", value=str(random.choice((*HUGE, "x"))))
    return model.SerializeToString()


MUTATIONS: tuple[Callable[[Random, bytes], bytes], ...] = (
    flipped, truncated, spliced, overwritten, with_fields, with_fields, with_sizes, with_names, with_paths
)  # fmt: skip


def damaged(seed: int) -> bytes:
    """The file of a seed."""
    random = Random(seed)
    data = original(random)
    for _ in range(random.choice((1, 1, 1, 2))):
        with contextlib.suppress(DecodeError, UnicodeError):  # the first change left nothing that can be read
            data = random.choice(MUTATIONS)(random, data) or b"\x00"
    return data


# ---------------------------------------------------------------- what is asked


def tried(seed: int) -> Iterator[str]:
    """Puts the file of a seed through the library and the command line."""
    outcome = Outcome()
    yield "draw"
    data = damaged(seed)
    yield "analysis"
    try:
        analysis = shapesolve.analyze(data)
        for text in _asked(analysis):
            _readable(outcome, text)
    except shapesolve.ModelError as error:
        outcome.refused = 1
        if len(str(error).splitlines()) != 1 or error.__cause__ is not None or not _plain(str(error)):
            outcome.wrong.append(("message", f"{str(error)!r} is not one plain line"))
    except Exception as error:
        outcome.wrong.append(("traceback", f"{place_of(error)}: {str(error)[:200]!r}"))
    yield "analysis"
    _command(outcome, data, FORMATS[seed % len(FORMATS)])
    return outcome


def _asked(analysis: Any) -> Iterator[str]:
    yield from (str(f) for f in analysis.diagnostics)
    yield str(analysis.contract)
    _ = analysis.shapes, analysis.dtypes, analysis.ambiguities, analysis.equalities, analysis.bindings
    for name, shape in list(analysis.inputs.items())[:4] if isinstance(analysis.inputs, dict) else []:
        yield f"{name}{shape}"


def _readable(outcome: Outcome, text: str) -> None:
    if len(text) > 1_000_000:
        outcome.wrong.append(("message", f"a text of {len(text)} characters"))


def _plain(text: str) -> bool:
    """Nothing that a terminal would obey."""
    return not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text if c != "\n")


def _command(outcome: Outcome, data: bytes, style: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        done = CliRunner().invoke(app, ["check", str(path), "--format", style])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        what = f"{place_of(done.exception)}: {str(done.exception)[:200]!r}"
        outcome.wrong.append(("traceback", f"check --format {style}: {what}"))
    elif done.exit_code not in (0, 1, 2):
        outcome.wrong.append(("exit code", f"check --format {style} ends with {done.exit_code}"))
    bad = [line for line in done.output.split("\n") if not _plain(line)]
    if bad:
        outcome.wrong.append(("escape", f"check --format {style} prints {bad[0][:120]!r}"))


@dataclass
class Totals:
    """What a campaign of files saw."""

    files: int = 0
    refused: int = 0
    faults: list[tuple[int, str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        found = Counter(category for _, category, _ in self.faults)
        wrong = ", ".join(f"{name}: {n}" for name, n in sorted(found.items())) or "none wrong"
        return f"{self.files} files, {self.refused} refused; {wrong}"


def campaign(
    seeds: range,
    seconds: float | None = None,
    out: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Totals:
    """The files of these seeds; those that fail are written to a folder."""
    totals = Totals()
    for seed, answer in answers(Worker(tried, (0,)), seeds, seconds):
        totals.files += 1
        if isinstance(answer, Lost):
            found = (
                []
                if answer.phase == "draw"
                else [(answer.cause.split()[0], f"{answer.cause} in the analysis")]
            )
        else:
            totals.refused += answer.refused
            found = answer.wrong
        for category, sentence in found:
            totals.faults.append((seed, category, sentence))
            say(f"file {seed}: {category}: {sentence}")
        if found and out is not None:
            out.mkdir(parents=True, exist_ok=True)
            (out / f"{found[0][0].replace(' ', '_')}_{seed}.onnx").write_bytes(damaged(seed))
    return totals
