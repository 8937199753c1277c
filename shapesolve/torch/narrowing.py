"""Declarations that leave out sizes at which running shows a failure: each is exported and run before it is told of."""

from __future__ import annotations

from collections.abc import Mapping

from .carried import holds_up
from .correction import Correction
from .declared import Declaration, read_declaration
from .exports import Exports
from .findings import TRIED, SourceFinding
from .pasting import pasted
from .probing import probed, probes
from .running import Runs

#: a failure on either side of the example, and one more
_ROUNDS = 3


def way_out(finding: SourceFinding, runs: Runs, exports: Exports) -> str:
    """What to declare instead of a size that fails, with the proof; empty where nothing that was tried works."""
    sizes = dict(finding.counterexample)
    if finding.verdict == "module":
        text = _narrower(runs, sizes, exports) if len(sizes) == 1 else ""
        return f"mend the line, or declare only sizes that run; {TRIED}:\n{text}" if text else ""
    numbers = {n: runs.example[n] for n in sizes}
    correction = Correction(runs.declaration, ())
    for name, value in numbers.items():
        correction.fix(name, value)
    text = correction.text()
    if not _exported(text, runs, (), exports):
        return ""
    return (
        f"leave {', '.join(f'`{n}` at {v}' for n, v in numbers.items())}, as in the example; {TRIED}:\n{text}"
    )


def _narrower(runs: Runs, failing: Mapping[str, int], exports: Exports) -> str:
    """The largest range around the example within which no run fails."""
    ((name, value),) = failing.items()
    correction = Correction(runs.declaration, ())
    for _ in range(_ROUNDS):
        last = _last_that_runs(runs, name, value)
        if last is None:
            return ""
        correction.limit(name, last, upper=value > last)
        text = correction.text()
        other = _called(text, runs)
        more = probed(other.declaration, other, None, lambda _: False)
        found = next((v for f in more for n, v in f.counterexample if n == name), None)
        if found is None:
            return text if _exported(text, runs, (name,), exports) else ""
        value = found
    return ""


def _last_that_runs(runs: Runs, name: str, fails: int) -> int | None:
    """Between the example and a size that fails: the last size before the failures begin."""
    good = runs.example[name]
    while abs(fails - good) > 1:
        middle = (good + fails) // 2
        state = runs.at({name: middle}).state
        if state == "unknown":
            return None
        good, fails = (middle, fails) if state == "runs" else (good, middle)
    return good


def _called(text: str, runs: Runs) -> Runs:
    """The same call under another declaration."""
    args, kwargs = runs.inputs({})
    declared: Declaration = read_declaration(runs.module, args, kwargs, pasted(text))
    return Runs(runs.module, args, kwargs, declared)


def _exported(text: str, runs: Runs, dynamic: tuple[str, ...], exports: Exports) -> bool:
    """True if torch.onnx.export takes a declaration, keeps these dims dynamic, and writes a file that follows the module."""
    other = _called(text, runs)
    if any(n not in other.declaration.roots for n in dynamic):
        return False
    tried = probes(other.declaration, other)
    return holds_up(text, other, tried, dynamic=other.declaration.roots, exports=exports)
