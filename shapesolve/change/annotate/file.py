"""Atomic writing of annotated models, with weights left in their files."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from ...model.saving import copied, external_locations, inline_integers, save
from .annotate import Policy, annotated

if TYPE_CHECKING:
    import onnx

    from ...analysis import Analysis
    from ...model import Model
#: Treatment of external weight files if the output is in another folder: copies or hard links. onnxruntime and onnx
#: load neither symbolic links nor paths outside the model's folder; onnx.load also rejects hard links.
Weights = Literal["copy", "link"]


def save_annotated(
    analysis: Analysis,
    path: str | Path,
    policy: Policy = "refine",
    weights: Weights | None = None,
    *,
    contract: bool = False,
) -> None:
    """Write the annotated model to `path`, optionally with its `contract` in the metadata.

    Args:
        analysis: Analysis of the model.
        path: Output file. It may be in another folder if `weights` is given or the model has no external weights.
        policy: Treatment of declared shapes.
        weights: ``copy`` or ``link`` (hard links), for external weights.

    Raises:
        ValueError: If the policy fails; `path` is the model itself; external weights are in another folder and
            `weights` is not given, or other files have their names; or the result exceeds protobuf's size limit.
        OSError: If the file cannot be written.
    """
    save_changed(analysis.model, annotated(analysis, policy, contract=contract), path, weights)


def save_changed(
    model: Model, changed: onnx.ModelProto, path: str | Path, weights: str | None = None
) -> None:
    """Write a changed version of `model` to a file; raises as `save_annotated` does."""
    target = Path(path)
    check_target(model, target)
    if weights is not None and weights not in get_args(Weights):
        raise ValueError(f"weights must be copy or link, got {weights!r}")
    home = None if model.path is None else model.path.parent
    inline_integers(changed, home)
    outside = list(dict.fromkeys(external_locations(changed)))
    placed: list[Path] = []
    try:
        if outside and (home is None or home.resolve() != target.parent.resolve()):
            if weights is None or home is None:
                where = f"in {home}" if home is not None else "next to the model"
                raise ValueError(
                    f"the model has external weights ({outside[0]} ...) {where}:"
                    " write the output into that folder, or pass --weights copy"
                )
            _place(home, target.parent, outside, weights, placed)
        save(changed, model, target)
    except BaseException:
        for new in placed:
            new.unlink()
        raise


def _place(home: Path, folder: Path, names: Iterable[str], how: str, placed: list[Path]) -> None:
    """Copy (or link) weight files from the folder `home` to `folder`, and add the new files to `placed`."""
    for name in names:
        source, new = (home / name).resolve(), folder / name
        if not source.is_relative_to(home.resolve()) or not new.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"weight file {name} is outside the model's folder")
        if not source.is_file():
            raise ValueError(f"weight file {source} does not exist")
        if new.exists():
            if new.samefile(source) or filecmp.cmp(source, new, shallow=False):
                continue
            raise ValueError(f"{new} already exists with different contents; choose another folder")
        new.parent.mkdir(parents=True, exist_ok=True)
        if how == "link":
            os.link(source, new)
        else:
            copied(source, new)
        placed.append(new)


def check_target(model: Model, target: Path) -> None:
    """Raise `ValueError` if `target` is a directory, the model itself, or one of its weight files."""
    if target.is_dir():
        raise ValueError(f"{target} is a directory; expected a file name")
    source = model.path
    if source is None or not target.exists():
        return
    if target.samefile(source):
        raise ValueError(f"cannot overwrite the model itself: {target}; choose another file")
    for name in dict.fromkeys(external_locations(model.proto)):
        weights = source.parent / name
        if weights.exists() and target.samefile(weights):
            raise ValueError(f"{target} is a weight file of the model; choose another file")
