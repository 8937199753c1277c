"""All ways to ask whether a model accepts some sizes, and where they disagree, with each other or with onnxruntime."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from inspect import signature
from random import Random
from typing import Any

import numpy as np
import onnx
import z3

import shapesolve

from ..building import EVERYTHING, session

#: sizes that are drawn: nothing, one, few, odd, large
SIZES = (0, 1, 2, 3, 7, 8, 33, 64, 100, 1001)
#: sizes drawn in each way
DRAWN = 6 if EVERYTHING else 3
Shape = tuple[int, ...]
#: output shapes of the runs at these input shapes, at least one if the model runs
Runs = Callable[[Mapping[str, Shape]], list[dict[str, Shape]]]


class Views:
    """An analysis, and what is made of its contract."""

    def __init__(self, model: Any) -> None:
        self.analysis = a = shapesolve.analyze(model)
        self.contract = a.contract
        self.conditions = [shapesolve.parse_cond(t["condition"]) for t in a.contract.to_json()["terms"]]
        namespace: dict[str, Any] = {}
        exec(compile(a.contract.to_python(), "checker", "exec"), namespace)  # noqa: S102 - it is what users run
        self.checker = namespace["check_sizes"]
        self.smtlib = a.contract.to_smtlib()
        self.accepts = cache(lambda sizes: a.check_inputs(self.shapes(dict(sizes))) == [])
        self.evaluated = cache(lambda sizes: a.evaluate(dict(sizes)))

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs, as declared."""
        declared = {
            n: i.shape for n, i in self.analysis.inputs.items() if getattr(i, "shape", None) is not None
        }
        return {n: tuple(d.evaluate(sizes) for d in shape) for n, shape in declared.items()}

    def tried(self, random: Random) -> list[dict[str, int]]:
        """Sizes that are alike, drawn, and near some that are accepted; no declared expression is negative there."""
        names = list(self.analysis.symbols)
        found = [dict.fromkeys(names, s) for s in (0, 1, 2)]
        refuted = self.analysis.prove("1 == 2")
        if isinstance(refuted, shapesolve.Refuted):
            accepted = dict(refuted.counterexample)
            found += [
                accepted,
                *({**accepted, random.choice(names): random.choice(SIZES)} for _ in range(DRAWN) if names),
            ]
        found += [{n: random.choice(SIZES) for n in names} for _ in range(DRAWN)]
        once = {tuple(s.items()): s for s in found}.values()
        return [
            s for s in once if min((d for shape in self.shapes(s).values() for d in shape), default=0) >= 0
        ]

    def said(self, sizes: Mapping[str, int], *, smtlib: bool = True) -> dict[str, bool | None]:
        """Accepted or not, by every view; None where a view cannot tell."""
        arguments = signature(self.checker).parameters  # some names cannot be those of arguments
        asked = dict(zip(arguments, (sizes[n] for n in self.contract.symbols), strict=True))
        truths = [c.evaluate(sizes) for c in self.conditions]
        evaluation = self.evaluated(key := tuple(sizes.items()))
        return {
            "check_inputs": self.accepts(key),
            "evaluate": not evaluation.violations,
            "evaluation": bool(evaluation),
            "contract": self.contract.holds(sizes),
            "checker": self.checker(**asked) == [],
            "conditions": None if None in truths else all(truths) and not self.contract.impossible,
            "smtlib": self._satisfiable(sizes) if smtlib else None,
        }

    def _satisfiable(self, sizes: Mapping[str, int]) -> bool | None:
        solver = z3.Solver(ctx=z3.Context())
        solver.set("rlimit", 2_000_000)
        solver.from_string(self.smtlib)
        declared = re.findall(r"declare-const (\|[^|]*\||\S+) Int", self.smtlib)
        for name in declared:
            plain = name.strip("|")
            if plain in sizes:
                solver.add(z3.Int(plain, ctx=solver.ctx) == sizes[plain])
        verdict = solver.check()
        return None if verdict == z3.unknown else verdict == z3.sat

    def disagreement(self, sizes: Mapping[str, int], runs: bool | None = None, **how: bool) -> str:
        """What the views say, if they differ or onnxruntime does otherwise."""
        said = self.said(sizes, **how)
        if said["contract"] is None and not (self.contract.unjudged and said["check_inputs"]):
            return f"at {sizes}: {said}, not judged [{self.contract}]"
        if len({*said.values(), runs} - {None}) > 1:
            return f"at {sizes}: {said}, runs: {runs} [{self.contract}]"
        return ""


def against_runtime(
    model: onnx.ModelProto, tried: Iterable[Mapping[str, int]], strict: bool = True
) -> Iterator[str]:
    """Sizes at which the views differ, or say other than what onnxruntime does.

    Unless `strict`, empty tensors and files that it does not load are not judged ("concat-empty", "declared-bodies").
    """
    views, runs = Views(model), running(model)
    for sizes in tried:
        judged = strict or (runs is not None and all(sizes.values()))
        made = runs(views.shapes(sizes)) if runs and judged else []
        if found := views.disagreement(sizes, bool(made) if judged else None, smtlib=False):
            yield found
        predicted = views.evaluated(tuple(sizes.items())) if made else {}
        for name in {name for real in made for name in real if name in predicted}:
            if predicted[name] not in [real[name] for real in made]:
                yield f"at {sizes}: {name} is {predicted[name]}, not one of {made}"


def running(model: onnx.ModelProto) -> Runs | None:
    """How onnxruntime runs it on ones, for each of the values of a flag ``c``; None for a file that it does not load."""
    try:
        loaded = session(model)
    except Exception:  # onnxruntime raises a dozen classes of its own
        return None
    names = [o.name for o in loaded.get_outputs()]

    def runs(shapes: Mapping[str, Shape]) -> list[dict[str, Shape]]:
        feeds = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
        flags: list[dict[str, Any]] = [{"c": np.array(c)} for c in (True, False)] if "c" in shapes else [{}]
        made = []
        for flag in flags:
            with suppress(Exception):  # as above
                made.append(
                    dict(zip(names, (r.shape for r in loaded.run(None, {**feeds, **flag})), strict=True))
                )
        return made

    return runs
