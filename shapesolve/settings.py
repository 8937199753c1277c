"""The table ``[tool.shapesolve]`` of the nearest ``pyproject.toml``."""

from __future__ import annotations

from pathlib import Path


class SettingsError(ValueError):
    """Raised for an invalid setting; the message has the file and the key."""


def settings_table(start: Path | None = None) -> tuple[dict[str, object], Path] | None:
    """Return the table and its file, or None if no ``pyproject.toml`` at or above the folder has one.

    Raises:
        SettingsError: If a file cannot be read.
    """
    here = (start or Path()).resolve()
    for folder in (here, *here.parents):
        file = folder / "pyproject.toml"
        try:
            if not file.is_file() or b"shapesolve" not in (data := file.read_bytes()):
                continue
            import tomllib

            table = tomllib.loads(data.decode()).get("tool", {}).get("shapesolve")
        except (OSError, ValueError) as e:
            raise SettingsError(f"cannot read {file}: {e}") from None
        if table is None:
            continue
        if not isinstance(table, dict):
            raise SettingsError(f"{file}: [tool.shapesolve] must be a table")
        return table, file
    return None


def texts(given: object, where: str) -> list[str]:
    """Return a list of strings; raise `SettingsError` for anything else."""
    if not isinstance(given, list) or not all(isinstance(item, str) for item in given):
        raise SettingsError(f"{where} must be a list of strings")
    return list(given)


def project_plugins(start: Path | None = None) -> tuple[list[str], Path]:
    """Return the operator rule modules named in the settings, and the folder that they are relative to.

    Raises:
        SettingsError: If the settings cannot be read.
    """
    found = settings_table(start)
    if found is None:
        return [], Path()
    table, file = found
    return texts(table.get("plugins", []), f"{file} [tool.shapesolve]: plugins"), file.parent
