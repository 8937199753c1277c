"""Sizes at which onnxruntime refuses a model, and what `fix` says of them: `python -m tests.change.inconsistent CORPUS COUNT`.

Sizes are drawn without looking at the analysis; onnxruntime alone says which of them do not run. At each of those `fix` must
refuse, and what it names must hold up: the term is false there, the names of the term alone are refused just as well, and
where sizes nearby are told to be accepted, the model runs at them.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

import numpy as np
import onnx
from onnx import helper

from shapesolve import Analysis, Refused, analyze, fix, parse_cond, parse_dim
from shapesolve.deploy.sizes import NoSizes, Sizes
from tests.change.running import weighted
from tests.fuzz.runtime import Data, Failed, Session

SMALL = (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17, 31, 33, 48, 63)
#: the most elements of an input that is run
LIMIT = 1 << 18
TRIES = 60


def feeds(model: onnx.ModelProto, sizes: Mapping[str, int]) -> dict[str, Data] | None:
    """Inputs of these sizes; None where a size is not given by them, is negative, or an input is too large."""
    stored, rng, found = {t.name for t in model.graph.initializer}, np.random.default_rng(0), {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        shape = [d.dim_value if d.HasField("dim_value") else _told(d.dim_param, sizes) for d in dims]
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if value.name in stored or kind.kind not in "fiub":
            return None
        if any(n is None or n < 0 for n in shape) or np.prod(shape) > LIMIT:
            return None
        drawn = rng.standard_normal(shape) if kind.kind == "f" else rng.integers(0, 2, shape)
        found[value.name] = (np.ones(shape) if "mask" in value.name else drawn).astype(kind)
    return found


def _told(text: str, sizes: Mapping[str, int]) -> int | None:
    return parse_dim(text).evaluate(sizes) if text else None


def not_running(
    model: onnx.ModelProto, analysis: Analysis, usual: Mapping[str, int], seed: str, count: int
) -> Iterator[dict[str, int]]:
    """Drawn sizes at which onnxruntime does not run the model, though it does at the usual ones."""
    random, names = Random(seed), [*analysis.symbols]
    session = Session(model)
    first = feeds(model, usual) if usual.keys() >= {*names} else None
    if first is None or not names:
        return
    session.run(first)
    seen = []
    for _ in range(TRIES):
        sizes = {name: usual[name] for name in names}
        for name in random.sample(names, random.randint(1, len(names))):
            sizes[name] = random.choice((*SMALL, usual[name] + 1, max(usual[name] - 1, 0), 2 * usual[name]))
        given = feeds(model, sizes)
        if given is None or sizes in seen:
            continue
        seen.append(sizes)
        if not runs(session, given):
            count -= 1
            yield sizes
        if count <= 0:
            return


def runs(session: Session, given: Mapping[str, Data]) -> bool:
    """Does the model run at these sizes, for these data or, where a truth value chooses a branch, for others?"""
    flags = [name for name, array in given.items() if isinstance(array, np.ndarray) and array.dtype == bool]
    for value in (None, True, False) if flags else (None,):
        feed = {
            name: np.full_like(array, value) if name in flags and value is not None else array
            for name, array in given.items()
        }
        try:
            session.run(feed)
        except Failed as failed:
            if failed.own_limit:
                return True
        else:
            return True
    return False


def wrong_with(model: onnx.ModelProto, analysis: Analysis, sizes: Mapping[str, int]) -> str:
    """What is wrong with what `fix` says of sizes at which the model does not run ('' where all holds)."""
    said = _refusal(model, sizes)
    if said is None:
        return "accepted"
    if not said.term:
        return f"no term: {said}"
    term = parse_cond(said.term)
    if term.evaluate(sizes) is not False:
        return f"the term {said.term} is not broken"
    if _refusal(model, {name: sizes[name] for name in term.free}) is None:
        return f"the names of {said.term} alone are accepted"
    try:
        near = Sizes(analysis).nearest(sizes)
    except NoSizes:
        return ""
    given = feeds(model, near)
    if given is not None:
        try:
            Session(model).run(given)
        except Failed as failed:
            return f"does not run at the sizes nearby, {near}: {failed}"
    return ""


def _refusal(model: onnx.ModelProto, sizes: Mapping[str, int]) -> Refused | None:
    try:
        fix(model, sizes)
    except Refused as refused:
        return refused
    return None


def judged(folder: Path, count: int) -> Iterator[tuple[dict[str, int], str]]:
    """Sizes at which a model does not run, and what is wrong with what `fix` says of them."""
    model = weighted(folder / "model.onnx")
    analysis = analyze(model)
    usual = json.loads((folder / "truth.json").read_text())["runs"][0]["symbols"]
    try:
        for sizes in not_running(model, analysis, usual, folder.name, count):
            yield sizes, wrong_with(model, analysis, sizes)
    except Failed:
        return  # not even at the usual sizes


def _send(connection: Connection, folder: Path, count: int) -> None:
    for answer in judged(folder, count):
        connection.send(answer)
    connection.send(None)


def isolated(folder: Path, count: int) -> Iterator[tuple[dict[str, int], str]]:
    """`judged` in another process: some empty tensors end onnxruntime, and then what was found before counts."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, folder, count))
    process.start()
    theirs.close()
    try:
        while answer := ours.recv():
            yield answer
    except EOFError:
        sys.stdout.write(f"{folder.name}: onnxruntime ended\n")
    process.join()


def main(corpus: Path, count: int) -> None:
    """Every model of a corpus."""
    found: Counter[str] = Counter()
    models = set()
    for file in sorted(corpus.glob("*/truth.json")):
        for sizes, wrong in isolated(file.parent, count):
            found["wrong" if wrong else "right"] += 1
            models.add(file.parent)
            if wrong:
                sys.stdout.write(f"{file.parent.name} {sizes}: {wrong}\n")
                sys.stdout.flush()
    sys.stdout.write(
        f"{found.total()} sizes that do not run, of {len(models)} models: {found['right']} refused with "
    )
    sys.stdout.write(f"the term that they break, {found['wrong']} not\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5)
