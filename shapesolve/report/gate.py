"""Filters findings by severity, code and baseline, with settings from ``pyproject.toml``.

    [tool.shapesolve]
    fail-on = "warning"             # error (default), warning, info
    select = ["SS2", "SS4"]         # codes or their beginnings; all when left out
    ignore = ["SS302"]
    limits = true                   # show size limits, such as the length of a table
    baseline = "shapes.baseline.json"
    plugins = ["acme_ops"]          # modules with rules of custom operators, relative to this file

    [tool.shapesolve.models."exports/*.onnx"]
    expect = ["seq <= 512"]         # what callers of these models are known to keep to

`expect` is taken for granted in the analysis, as ``--assume`` is: what follows from it is not reported, and an expectation
that the model contradicts is an error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from ..explain.diagnose import CODES
from ..explain.finding import Severity
from ..model.limits import MAX_TEXT
from ..model.saving import write_atomically
from ..settings import SettingsError, settings_table, texts

if TYPE_CHECKING:
    from ..explain.finding import Finding

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
#: limits that a model has by what it is made of: they stand in its contract, and are shown on request
NATURAL_LIMITS = "SS403"


class Sifted(NamedTuple):
    """The findings to show for a model, and counts of hidden ones."""

    shown: tuple[Finding, ...]
    limits: int = 0
    known: int = 0


@dataclass(frozen=True, slots=True)
class Gate:
    """Decides which findings are shown, and which of these fail a check.

    Attributes:
        fail_on: the least severity that fails.
        select: beginnings of the codes that are shown; all when empty.
        ignore: beginnings of codes that are not shown, whatever `select` says.
        limits: show size limits too, and what only unusual inputs meet; so does ``fail_on="info"``, and selecting their code.
        known: fingerprints of findings that a baseline holds.
        expect: conditions by pattern of the model's path, as ``expect`` in the settings.
    """

    fail_on: Severity = "error"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    limits: bool = False
    known: frozenset[str] = frozenset()
    baseline: Path | None = None
    expect: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def sifted(self, path: str, findings: Iterable[Finding]) -> Sifted:
        """Splits findings of one model into those to show and counts of hidden ones."""
        shown: list[Finding] = []
        limits = known = 0
        for f in findings:
            if not self._wants(f.code):
                continue
            if (f.code == NATURAL_LIMITS or f.usual) and not self._shows_limits:
                limits += 1
            elif self.known and fingerprint(relative(path, self.baseline), f) in self.known:
                known += 1
            else:
                shown.append(f)
        return Sifted(tuple(shown), limits, known)

    @property
    def _shows_limits(self) -> bool:
        named = any(code and NATURAL_LIMITS.startswith(code) for code in self.select)
        return self.limits or self.fail_on == "info" or named

    def _wants(self, code: str) -> bool:
        selected = not self.select or code.startswith(self.select)
        return selected and not (self.ignore and code.startswith(self.ignore))

    def fails(self, findings: Iterable[Finding]) -> bool:
        """True if one of these findings is at least as severe as `fail_on`."""
        limit = SEVERITIES.index(self.fail_on)
        return any(SEVERITIES.index(f.severity) <= limit for f in findings)

    def expected(self, path: str) -> tuple[str, ...]:
        """Conditions that callers of the model at `path` promise to keep (from the settings)."""
        places = {path, Path(path).as_posix(), Path(path).name}
        return tuple(
            c
            for pattern, conds in self.expect.items()
            if any(fnmatchcase(p, pattern) for p in places)
            for c in conds
        )

    def changed(
        self,
        fail_on: str | None = None,
        select: Iterable[str] | None = None,
        ignore: Iterable[str] | None = None,
        baseline: Path | None = None,
        limits: bool = False,
    ) -> Gate:
        """These settings with some replaced by command line options.

        Raises:
            SettingsError: an unknown severity or code, or a baseline that cannot be read.
        """
        gate = self
        if fail_on is not None:
            gate = replace(gate, fail_on=_severity(fail_on, "--fail-on"))
        if select:
            gate = replace(gate, select=_codes(select, "--select"))
        if ignore:
            gate = replace(gate, ignore=_codes(ignore, "--ignore"))
        if baseline is not None:
            gate = replace(gate, baseline=baseline, known=read_baseline(baseline))
        return replace(gate, limits=True) if limits else gate


def fingerprint(path: str, finding: Finding) -> str:
    """Stable identity of a finding between runs: a hash of the model, the code, the node and the title."""
    import hashlib

    text = "\0".join((Path(path).as_posix(), finding.code, finding.node, finding.title))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def relative(path: str, baseline: Path | None) -> str:
    """The path of a model as seen from the folder of a baseline, wherever the command runs."""
    file = Path(path)
    if baseline is None or not file.exists():
        return path
    try:
        return Path(os.path.relpath(file.resolve(), baseline.resolve().parent)).as_posix()
    except ValueError:  # on another drive
        return file.resolve().as_posix()


# ---------------------------------------------------------------------- settings


def read_settings(start: Path | None = None) -> Gate:
    """Reads the settings from the nearest ``pyproject.toml`` at or above a folder that has any.

    Raises:
        SettingsError: it cannot be read, or a setting makes no sense.
    """
    found = settings_table(start)
    return Gate() if found is None else _gate(*found)


def _gate(table: Mapping[str, object], file: Path) -> Gate:
    where = f"{file} [tool.shapesolve]"
    known = ("fail-on", "select", "ignore", "limits", "baseline", "models", "plugins")
    for key in table:
        if key not in known:
            near = get_close_matches(str(key), known, 1)
            raise SettingsError(
                f"{where}: no setting is called {key!r}{f'; did you mean {near[0]!r}?' if near else ''}"
            )
    gate = Gate(
        _severity(table.get("fail-on", "error"), f"{where}: fail-on"),
        _codes(texts(table.get("select", []), f"{where}: select"), f"{where}: select"),
        _codes(texts(table.get("ignore", []), f"{where}: ignore"), f"{where}: ignore"),
        _flag(table.get("limits", False), f"{where}: limits"),
        expect=_expectations(table.get("models", {}), where),
    )
    baseline = table.get("baseline")
    if baseline is None:
        return gate
    if not isinstance(baseline, str):
        raise SettingsError(f"{where}: baseline is a file name")
    path = file.parent / baseline
    return replace(gate, baseline=path, known=read_baseline(path) if path.exists() else frozenset())


def _expectations(models: object, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(models, dict):
        raise SettingsError(f"{where}: models is a table by file pattern")
    out = {}
    for pattern, table in models.items():
        if not isinstance(table, dict) or set(table) - {"expect"}:
            raise SettingsError(f'{where}: models."{pattern}" holds expect = [...] and nothing else')
        out[pattern] = tuple(texts(table.get("expect", []), f'{where}: models."{pattern}".expect'))
    return out


def _flag(given: object, where: str) -> bool:
    if not isinstance(given, bool):
        raise SettingsError(f"{where} is true or false")
    return given


def _severity(given: object, where: str) -> Severity:
    for severity in SEVERITIES:
        if given == severity:
            return severity
    raise SettingsError(f"{where} is {', '.join(SEVERITIES[:-1])} or {SEVERITIES[-1]}, not {given!r}")


def _codes(given: Iterable[str], where: str) -> tuple[str, ...]:
    codes = tuple(dict.fromkeys(part.strip() for text in given for part in text.split(",") if part.strip()))
    for code in codes:
        if not any(known.startswith(code) for known in CODES):
            near = get_close_matches(code.upper(), CODES, 1, 0.5)
            raise SettingsError(
                f"{where}: no code is or begins with {code!r}{f'; did you mean {near[0]}?' if near else ''}"
            )
    return codes


# ---------------------------------------------------------------------- baseline


def read_baseline(file: Path) -> frozenset[str]:
    """Fingerprints of the findings in a baseline file. Raises `SettingsError` where it is none."""
    try:
        if file.stat().st_size > MAX_TEXT:
            raise SettingsError(f"{file} is too large for a baseline")
        data = json.loads(file.read_text("utf-8"))
        return frozenset(str(entry["fingerprint"]) for entry in data["findings"])
    except OSError as e:
        raise SettingsError(f"cannot read the baseline {file}: {e.strerror or e}") from None
    except (ValueError, KeyError, TypeError) as e:
        if isinstance(e, SettingsError):
            raise
        raise SettingsError(f"{file} is not a baseline: write one with --write-baseline") from None


def write_baseline(file: Path, found: Iterable[tuple[str, Iterable[Finding]]]) -> int:
    """Writes a baseline file of findings; returns their number."""
    entries: list[dict[str, Any]] = [
        {
            "fingerprint": fingerprint(place, f),
            "model": place,
            "code": f.code,
            "node": f.node,
            "title": f.title,
        }
        for place, findings in ((relative(path, file), findings) for path, findings in found)
        for f in findings
    ]
    text = json.dumps({"version": 1, "findings": entries}, indent=1, ensure_ascii=False)
    write_atomically(file, f"{text}\n".encode("utf-8", "surrogatepass"))
    return len(entries)
