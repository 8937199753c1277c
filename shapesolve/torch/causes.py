"""The line that writes a size of the example down as a number, far above the line that fails.

positions = torch.arange(10)             # the cause
return x + self.table(positions)         # where a sequence of another length fails
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..expr import Cond
from .places import Origin, Place, read_trace


def cause_of(cond: Cond, failing: Origin, program: Any) -> Origin | None:
    """Origin of the call that writes the only size that runs as a number, before the failing line.

    None if the failing line has it itself, or no such call is found. `program` is the exported program.
    """
    number = _only_size(cond)
    if number is None or program is None or failing.place is None or _contains(failing.place, number):
        return None
    for node in _upstream(failing.place, program):
        shape = tuple(getattr(node.meta.get("val"), "shape", ()))
        trace = _trace(node)
        if number not in shape or _is_axis(node, number) or _splits(node, shape, number):
            continue
        if trace and _contains(trace[-1], number):
            return Origin(trace, failing.module, failing.kind)
    return None


def _only_size(cond: Cond) -> int | None:
    """The number n of ``x == n``."""
    if cond.kind != "==" or len(cond.free) != 1 or len(cond.args[0].terms) != 1:
        return None
    factor = cond.args[0].terms[0][1]
    return int(-cond.args[0].const // factor)


def _trace(node: Any) -> tuple[Place, ...]:
    return read_trace(node.meta.get("stack_trace", "") or "")


def _upstream(place: Place, program: Any) -> Iterator[Any]:
    """The calls that feed a line, nearest first, that line's own calls included."""
    calls = [(n, _trace(n)) for n in program.graph.nodes if n.op == "call_function"]
    at = (place.file, place.line)
    waiting = [n for n, trace in calls if trace and (trace[-1].file, trace[-1].line) == at]
    seen = set(waiting)
    while waiting:
        node = waiting.pop(0)
        yield node
        for source in node.all_input_nodes:
            if source not in seen and source.op == "call_function":
                seen.add(source)
                waiting.append(source)


def _contains(place: Place, number: int) -> bool:
    """True if the line contains the number, not counted from the end (``transpose(-1, -2)``)."""
    found = re.finditer(rf"(?<![\w.]){number}(?![\w.])", place.code)
    return any(not re.search(r"(^|[(\[{,:=])\s*-$", place.code[: m.start()].rstrip()) for m in found)


def _is_axis(node: Any, number: int) -> bool:
    """True if the number is an axis of a call, as in ``transpose(1, 2)``. Sizes are SymInt in a schema, axes are int."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return False
    given = zip((a.name for a in schema.arguments), node.args)
    axes = re.findall(r"\bint(?:\[\d*\])?\??\s(\w+)", str(schema))
    return any(number == v or (isinstance(v, (list, tuple)) and number in v) for n, v in given if n in axes)


def _splits(node: Any, shape: Sequence[Any], number: int) -> bool:
    """True if a call splits another size into the number and others, as heads of channels."""
    for source in node.all_input_nodes:
        # as text: the comparison of a symbolic size may make a guard
        given, made = [*map(str, getattr(source.meta.get("val"), "shape", ()))], [*map(str, shape)]
        for end in (0, -1):
            while given and made and given[end] == made[end]:
                del given[end], made[end]
        if given and len(made) > len(given) and str(number) in made and str(number) not in given:
            return True
    return False
