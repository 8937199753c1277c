"""Findings filtered by severity, code, and baseline, with settings from ``pyproject.toml``.

    [tool.shapesolve]
    fail-on = "warning"             # error (default), warning, info
    select = ["SS2", "SS4"]         # codes or prefixes of codes (default: all)
    ignore = ["SS302"]
    limits = true                   # show size limits, such as the length of a table
    baseline = "shapes.baseline.json"
    plugins = ["acme_ops"]          # modules with rules for custom operators, relative to this file

    [tool.shapesolve.models."exports/*.onnx"]
    expect = ["seq <= 512"]         # conditions that callers of these models are known to satisfy

The analysis assumes `expect`, like ``--assume``: consequences are not reported, and an expectation that contradicts
the model is an error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from ..causes.finding import Severity
from ..findings.diagnose import CODES
from ..model.limits import MAX_TEXT
from ..model.saving import write_atomically
from ..settings import SettingsError, settings_table, texts

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..causes.finding import Finding

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
#: stands for the dims of a finding in a baseline of version 1
_ANY = "*"
#: size limits inherent in a model's structure: the contract includes them, and they are shown only on request
NATURAL_LIMITS = "SS403"


class Sifted(NamedTuple):
    """Findings to show for a model, and counts of hidden ones."""

    shown: tuple[Finding, ...]
    limits: int = 0
    known: int = 0


@dataclass(frozen=True, slots=True)
class Gate:
    """Filter that selects the findings to show, and those that fail a check.

    Attributes:
        fail_on: Minimum severity that fails.
        select: Prefixes of the codes to show; all if empty.
        ignore: Prefixes of the codes to hide, regardless of `select`.
        limits: Whether to show size limits, and findings that affect only atypical inputs. ``fail_on="info"`` and
            selecting their code show them too.
        known: Fingerprints of the findings in a baseline.
        outdated: Whether an earlier version wrote the baseline, without the dims of its findings.
        expect: Conditions by pattern of the model's path, like ``expect`` in the settings.
    """

    fail_on: Severity = "error"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    limits: bool = False
    known: frozenset[str] = frozenset()
    baseline: Path | None = None
    expect: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    outdated: bool = False

    def with_baseline(self, file: Path) -> Gate:
        """Return these settings with the findings of a baseline file as the known ones.

        Raises:
            SettingsError: If the file is not a baseline.
        """
        known, version = read_baseline(file)
        return replace(self, baseline=file, known=known, outdated=version == 1)

    def sifted(self, path: str, findings: Iterable[Finding]) -> Sifted:
        """Split the findings of one model into those to show and counts of hidden ones."""
        shown: list[Finding] = []
        limits = known = 0
        for f in findings:
            if not self._wants(f.code):
                continue
            if (f.code == NATURAL_LIMITS or f.usual) and not self._shows_limits:
                limits += 1
            elif self.known and not self.known.isdisjoint(fingerprints(relative(path, self.baseline), f)):
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
        """Return True if one of these findings is at least as severe as `fail_on`."""
        limit = SEVERITIES.index(self.fail_on)
        return any(SEVERITIES.index(f.severity) <= limit for f in findings)

    def expected(self, path: str) -> tuple[str, ...]:
        """Return the conditions that callers of the model at `path` promise to satisfy, from the settings."""
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
        """Return these settings with some replaced by command line options.

        Raises:
            SettingsError: If a severity or code is unknown, or a baseline cannot be read.
        """
        gate = self
        if fail_on is not None:
            gate = replace(gate, fail_on=_severity(fail_on, "--fail-on"))
        if select:
            gate = replace(gate, select=_codes(select, "--select"))
        if ignore:
            gate = replace(gate, ignore=_codes(ignore, "--ignore"))
        if baseline is not None:
            gate = gate.with_baseline(baseline)
        return replace(gate, limits=True) if limits else gate


def checked_findings(analysis: Analysis) -> tuple[Finding, ...]:
    """Return the findings that `check` shows without settings and options."""
    return Gate().sifted("", analysis.findings).shown


def fingerprint(path: str, finding: Finding) -> str:
    """Return a finding's stable identity between runs: a hash of the model, the code, the node, and the dims."""
    return _hash(Path(path).as_posix(), finding.code, finding.node, *finding.dims)


def fingerprints(path: str, finding: Finding) -> tuple[str, str]:
    """Return the fingerprint of a finding, and what stands for it in a baseline of version 1, which has no dims."""
    return fingerprint(path, finding), _hash(Path(path).as_posix(), finding.code, finding.node, _ANY)


def _hash(*parts: str) -> str:
    import hashlib

    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:20]


def relative(path: str, baseline: Path | None) -> str:
    """Return the path of a model relative to the folder of a baseline, independent of the working directory."""
    file = Path(path)
    if baseline is None or not file.exists():
        return path
    try:
        return Path(os.path.relpath(file.resolve(), baseline.resolve().parent)).as_posix()
    except ValueError:  # on another drive
        return file.resolve().as_posix()


# ---------------------------------------------------------------------- settings


def read_settings(start: Path | None = None) -> Gate:
    """Read the settings from the nearest ``pyproject.toml`` at or above a folder that has any.

    Raises:
        SettingsError: If the file cannot be read or a setting is invalid.
    """
    found = settings_table(start)
    return Gate() if found is None else _gate(*found)


def _gate(table: Mapping[str, object], file: Path) -> Gate:
    where = f"{file} [tool.shapesolve]"
    known = ("fail-on", "select", "ignore", "limits", "baseline", "models", "plugins")
    for key in table:
        if key not in known:
            from difflib import get_close_matches

            near = get_close_matches(str(key), known, 1)
            raise SettingsError(
                f"{where}: unknown setting {key!r}{f'; did you mean {near[0]!r}?' if near else ''}"
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
        raise SettingsError(f"{where}: baseline must be a file name")
    path = file.parent / baseline
    return gate.with_baseline(path) if path.exists() else replace(gate, baseline=path)


def _expectations(models: object, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(models, dict):
        raise SettingsError(f"{where}: models must be a table keyed by file pattern")
    out = {}
    for pattern, table in models.items():
        if not isinstance(table, dict) or set(table) - {"expect"}:
            raise SettingsError(f'{where}: models."{pattern}" must contain only expect = [...]')
        out[pattern] = tuple(texts(table.get("expect", []), f'{where}: models."{pattern}".expect'))
    return out


def _flag(given: object, where: str) -> bool:
    if not isinstance(given, bool):
        raise SettingsError(f"{where} must be true or false")
    return given


def _severity(given: object, where: str) -> Severity:
    for severity in SEVERITIES:
        if given == severity:
            return severity
    raise SettingsError(f"{where} must be {', '.join(SEVERITIES[:-1])}, or {SEVERITIES[-1]}, got {given!r}")


def _codes(given: Iterable[str], where: str) -> tuple[str, ...]:
    codes = tuple(dict.fromkeys(part.strip() for text in given for part in text.split(",") if part.strip()))
    for code in codes:
        if not any(known.startswith(code) for known in CODES):
            from difflib import get_close_matches

            near = get_close_matches(code.upper(), CODES, 1, 0.5)
            raise SettingsError(
                f"{where}: unknown code or prefix {code!r}{f'; did you mean {near[0]}?' if near else ''}"
            )
    return codes


# ---------------------------------------------------------------------- baseline


def read_baseline(file: Path) -> tuple[frozenset[str], int]:
    """Return the fingerprints of the findings in a baseline file, and the version of the file.

    Raises:
        SettingsError: If the file is not a baseline.
    """
    try:
        if file.stat().st_size > MAX_TEXT:
            raise SettingsError(f"{file} is too large for a baseline")
        data = json.loads(file.read_text("utf-8"))
        if data["version"] == 1:
            return frozenset(_hash(e["model"], e["code"], e["node"], _ANY) for e in data["findings"]), 1
        return frozenset(str(entry["fingerprint"]) for entry in data["findings"]), int(data["version"])
    except OSError as e:
        raise SettingsError(f"cannot read the baseline {file}: {e.strerror or e}") from None
    except (ValueError, KeyError, TypeError) as e:
        if isinstance(e, SettingsError):
            raise
        raise SettingsError(f"{file} is not a baseline; write one with --write-baseline") from None


def write_baseline(file: Path, found: Iterable[tuple[str, Iterable[Finding]]]) -> int:
    """Write a baseline file of findings, and return their number."""
    entries: list[dict[str, Any]] = [
        {
            "fingerprint": fingerprint(place, f),
            "model": place,
            "code": f.code,
            "node": f.node,
            "dims": list(f.dims),
            "title": f.title,
        }
        for place, findings in ((relative(path, file), findings) for path, findings in found)
        for f in findings
    ]
    text = json.dumps({"version": 2, "findings": entries}, indent=1, ensure_ascii=False)
    write_atomically(file, f"{text}\n".encode("utf-8", "surrogatepass"))
    return len(entries)
