"""Guards that are broken one at a time, in a copy of the repository: a test must see it, or the mutant survives.

    python -m tests.mutants                # all of them
    python -m tests.mutants sarif free     # those with such a name

A line is looked for in the named file and, where files were moved, in the only one that has it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
#: what a copy needs
_COPIED = (
    "shapesolve",
    "tests",
    "examples",
    "benchmarks",
    "docs",
    "pyproject.toml",
    "README.md",
    "action.yml",
)


class Mutant(NamedTuple):
    """A line, the same line broken, and names of the files of tests of which one must fail."""

    says: str
    file: str
    line: str
    broken: str
    tests: str


MUTANTS = {
    "sarif-level": Mutant(
        "every result in SARIF is a note", "sarif.py",
        '"level": LEVELS[finding.severity],\n        "message"', '"level": "note",\n        "message"',
        "test_sarif.py",
    ),
    "diff-sizes": Mutant(
        "sizes that show a difference are not checked", "diff.py",
        "if cond.evaluate(sizes) is False and not checker.broken(sizes):", "if cond.evaluate(sizes) is False:",
        "test_diff.py",
    ),
    "free-suspect": Mutant(
        "a stored tensor of the freed size is no suspect", "free_mending.py",
        "if any(n > 1 and n in freeing.seen for n in dims):", "if False:", "test_free_sizes.py test_free.py",
    ),
    "sizes-check": Mutant(
        "accepted sizes are never asked of check_inputs", "solved.py",
        "return not self.violations_at(sizes)\n\n        return SizeFinder(",
        "return True\n\n        return SizeFinder(", "test_sizes.py test_enumeration.py test_inputs.py",
    ),
    "restriction-fails": Mutant(
        "of the sizes between a sample that runs and one that fails, none is judged", "sample.py",
        "yield Sample(nearer(runs, fails, lambda at, _: self._runs(at)), fails)",
        "yield Sample(nearer(runs, fails, lambda at, _: True), fails)", "test_remedies.py test_titles.py",
    ),
    "few-once": Mutant(
        "whether a condition leaves few sizes is found out each time", "baked.py",
        "found = self._few[cond] = cond.size", "found = cond.size", "test_tail.py",
    ),
    "operand": Mutant(
        "an operand may have any element type", "interface.py",
        "        if not fits:\n            return i, i", "        if False:\n            return i, i", "test_operand_sweep.py",
    ),
    "numbers": Mutant(
        "sizes that no term judges are not tried with numbers", "solved.py",
        "numbers = None if found else self._with_numbers(sizes)", "numbers = None", "test_ranks.py test_sizes.py",
    ),
    "refutation": Mutant(
        "a claim is refuted by sizes at which it holds", "judge.py",
        """    if now.is_true:
        names = _undecided(claim.cond.free - a.symbols.keys(), a)
        return Unknown(reason=f"it holds for the sizes tried; {names}")
    if not now.is_false and not there.prover.follows(~now):""",
        "    if False:", "test_proofs.py test_proofs_run.py",
    ),
    "smtlib": Mutant(
        "SMT-LIB leaves out the first term", "export.py",
        "    for name, comment, cond in stated:\n", "    for name, comment, cond in list(stated)[1:]:\n",
        "test_one_truth.py",
    ),
    "simplify": Mutant(
        "max(x, 0) is x where x is -1", "rules.py",
        "    yield ge(x, 0), x\n", "    yield ge(x, -1), x\n", "test_simplify.py",
    ),
    "first-not-one": Mutant(
        "Z3 is told that a broadcast is its last size that is not 1", "z3_bridge.py",
        "map(self._polynomial, reversed(sizes)), one)", "map(self._polynomial, sizes), one)", "test_bridges.py",
    ),
    "bounds": Mutant(
        "bounds of a negative multiple are not exchanged", "bounds.py",
        "        if c < 0:\n            lo, hi = hi, lo\n        return (None if lo is None else lo * c + const)",
        "        return (None if lo is None else lo * c + const)", "test_bounds.py test_rules.py",
    ),
    "collector": Mutant(
        "the collector is not started again", "collection.py",
        "        if self._was_enabled:\n            gc.enable()", "        if False:\n            gc.enable()", "test_host.py",
    ),
    "plugins": Mutant(
        "plugins of the project's settings are not loaded", "parameters.py",
        "*((n, folder) for n in named), *(", "*((n, folder) for n in named[:0]), *(", "test_plugins.py",
    ),
    "lists": Mutant(
        "a list is that of the single rows, whatever it holds", "provenance_lists.py",
        "return self.entry is None or _ROW.free.isdisjoint(self.entry.free)", "return True", "test_free_lists.py",
    ),
    "audit": Mutant(
        "a reported shape that does not follow is not told", "audit.py",
        'if answer == "sat":\n                at = self._sizes_of', "if False:\n                at = self._sizes_of",
        "test_audit.py",
    ),
    "cpp-overflow": Mutant(
        "a product in C++ that does not fit is not marked", "cpp.py",
        "return over ? Int(0, false) : Int(a.value * b.value", "return over ? Int(0, true) : Int(a.value * b.value",
        "test_guards.py",
    ),
    "declared-reads": Mutant(
        "Squeeze does not declare that it reads its axes", "layout.py",
        "@_squeeze(since=13, reads={1: AXES}, data=(1,), vectors=(1,), named=(1,))", "@_squeeze(since=13, vectors=(1,))",
        "test_declarations.py",
    ),
    "line-text": Mutant(
        "what is printed has what a terminal obeys", "lines.py",
        '("", visible(p)) if isinstance(p, str) else (p[0], visible(p[1]))', '("", p) if isinstance(p, str) else p',
        "test_hostile.py test_terminal.py test_cli.py",
    ),
}  # fmt: skip


def place_of(mutant: Mutant, root: Path = ROOT) -> Path:
    """The file that has the line once; it is in no other file, or in one of that name."""
    found = [p for p in (root / "shapesolve").rglob("*.py") if p.read_text("utf-8").count(mutant.line) == 1]
    named = [p for p in found if p.name == mutant.file] or found
    if len(named) != 1:
        raise LookupError(f"{mutant.says}: its line is in {len(named)} files, write it anew")
    return named[0]


def passes(at: Path, tests: str) -> bool:
    """Do the tests of these files pass in the copy?"""
    files = sorted({str(p) for name in tests.split() for p in (at / "tests").rglob(name)})
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-x", "-q", *files]
    env = {**os.environ, "PYTHONPATH": str(at), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("SHAPESOLVE_ALL", None)  # what is caught at night only is caught too late
    done = subprocess.run(command, cwd=at, env=env, capture_output=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stdout.decode() + done.stderr.decode())
    return done.returncode == 0


def is_caught(name: str) -> bool:
    """Does a test fail that passes without the mutant?"""
    mutant = MUTANTS[name]
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder).resolve()
        for part in _COPIED:
            source = ROOT / part
            (shutil.copytree if source.is_dir() else shutil.copy)(source, at / part)
        if not passes(at, mutant.tests):
            raise RuntimeError(f"{name}: its tests fail without it")
        place = place_of(mutant, at)
        place.write_text(place.read_text("utf-8").replace(mutant.line, mutant.broken), "utf-8")
        return not passes(at, mutant.tests)


def main(*chosen: str) -> int:
    """Say of each mutant whether it is caught; the exit status is 1 when one survives."""
    survive = 0
    for name in MUTANTS:
        if not chosen or any(part in name for part in chosen):
            caught = is_caught(name)
            survive += not caught
            print(("caught  " if caught else "SURVIVES"), name, f"({MUTANTS[name].says})", flush=True)
    return int(bool(survive))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
