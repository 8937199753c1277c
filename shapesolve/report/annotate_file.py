"""Annotated models as files: written whole or not at all, with weights left where they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..model.saving import external_locations, save
from .annotate import Policy, annotated

if TYPE_CHECKING:
    import onnx

    from ..analysis import Analysis
    from ..model import Model


def save_annotated(
    analysis: Analysis, path: str | Path, policy: Policy = "refine", *, contract: bool = False
) -> None:
    """Write the annotated model to `path`, with its `contract` in the metadata on request.

    Raises:
        ValueError: the policy fails; `path` is the model itself; the model keeps weights in files of another
            folder; or the result is larger than protobuf can hold.
        OSError: the file cannot be written.
    """
    save_changed(analysis.model, annotated(analysis, policy, contract=contract), path)


def save_changed(model: Model, changed: onnx.ModelProto, path: str | Path) -> None:
    """Write what was made of `model` to `path`; raises as `save_annotated` does."""
    target = Path(path)
    source = model.path
    check_target(model, target)
    outside = next(external_locations(changed), None)
    if outside is not None:
        home = source.parent if source is not None else None
        if home is None or home.resolve() != target.parent.resolve():
            where = f"in {home}" if home is not None else "beside the model"
            raise ValueError(
                f"weights of the model are in files of their own ({outside} ...) {where}:"
                " write the output into that folder, where it finds them"
            )
    save(changed, model, target)


def check_target(model: Model, target: Path) -> None:
    """Raises `ValueError` for a directory, or if writing to `target` destroys the model or its weights."""
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
