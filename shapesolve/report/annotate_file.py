"""Writes annotated models to files atomically, with weights left in their files."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from ..model.saving import copied, external_locations, inline_integers, save
from .annotate import Policy, annotated

if TYPE_CHECKING:
    import onnx

    from ..analysis import Analysis
    from ..model import Model
#: treatment of weights in files of their own, where the output goes to another folder: copies, or hard links. onnxruntime and
#: onnx load neither symbolic links nor paths that leave the folder of the model; onnx.load refuses hard links, too
Weights = Literal["copy", "link"]


def save_annotated(
    analysis: Analysis,
    path: str | Path,
    policy: Policy = "refine",
    weights: Weights | None = None,
    *,
    contract: bool = False,
) -> None:
    """Write the annotated model to `path`, with its `contract` in the metadata on request.

    Args:
        analysis: the analysis of the model.
        path: the file, which may be in another folder if `weights` is given or no weights are in files of their own.
        policy: the treatment of shapes that are declared already.
        weights: ``copy`` or ``link`` (hard links) for weights in files of their own.

    Raises:
        ValueError: the policy fails; `path` is the model itself; weights are in files of another folder and `weights` is not
            given, or other files have their names; or the result is larger than protobuf can hold.
        OSError: the file cannot be written.
    """
    save_changed(analysis.model, annotated(analysis, policy, contract=contract), path, weights)


def save_changed(
    model: Model, changed: onnx.ModelProto, path: str | Path, weights: str | None = None
) -> None:
    """Writes a changed version of `model` to a file; raises as `save_annotated` does."""
    target = Path(path)
    check_target(model, target)
    if weights is not None and weights not in get_args(Weights):
        raise ValueError(f"weights are copied or linked: {weights!r} is neither copy nor link")
    home = None if model.path is None else model.path.parent
    inline_integers(changed, home)
    outside = list(dict.fromkeys(external_locations(changed)))
    placed: list[Path] = []
    try:
        if outside and (home is None or home.resolve() != target.parent.resolve()):
            if weights is None or home is None:
                where = f"in {home}" if home is not None else "beside the model"
                raise ValueError(
                    f"weights of the model are in files of their own ({outside[0]} ...) {where}:"
                    " write the output into that folder, or say --weights copy"
                )
            _place(home, target.parent, outside, weights, placed)
        save(changed, model, target)
    except BaseException:
        for new in placed:
            new.unlink()
        raise


def _place(home: Path, folder: Path, names: Iterable[str], how: str, placed: list[Path]) -> None:
    """Copies (or links) weight files from the folder `home` to `folder`. What is new goes to `placed`."""
    for name in names:
        source, new = (home / name).resolve(), folder / name
        if not source.is_relative_to(home.resolve()) or not new.resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"the weights {name} are outside of the folder of the model")
        if not source.is_file():
            raise ValueError(f"the weights {source} are not there")
        if new.exists():
            if new.samefile(source) or filecmp.cmp(source, new, shallow=False):
                continue
            raise ValueError(f"{new} is there already, and not these weights: choose another folder")
        new.parent.mkdir(parents=True, exist_ok=True)
        if how == "link":
            os.link(source, new)
        else:
            copied(source, new)
        placed.append(new)


def check_target(model: Model, target: Path) -> None:
    """Raises `ValueError` if `target` is a directory, the model itself, or one of its weight files."""
    if target.is_dir():
        raise ValueError(f"{target} is a directory, name a file in it")
    source = model.path
    if source is None or not target.exists():
        return
    if target.samefile(source):
        raise ValueError(f"{target} is the model itself: the original is never touched, name another file")
    for name in dict.fromkeys(external_locations(model.proto)):
        weights = source.parent / name
        if weights.exists() and target.samefile(weights):
            raise ValueError(f"{target} holds weights of the model, name another file")
