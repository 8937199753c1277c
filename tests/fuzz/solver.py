"""Random questions to the algebra and the solver, against brute force over small sizes.

A seed is a batch: some expressions, some conditions, and one analysis with random assumptions that is asked claims,
bounds, divisors and equalities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import Any

import onnx
from onnx import TensorProto, helper

import shapesolve

from ..expr.trees import Tree, Undefined, composed, drawn, drawn_test, meaning, names, points, text
from .builder import untyped
from .isolate import Lost, Worker, answers
from .judge import place_of

SYMBOLS = ("a", "b", "c")
#: sizes, and what a tree is there
Rows = list[tuple[dict[str, int], Any]]


@dataclass
class Answers:
    """What came of one batch: how many questions, and sentences about wrong answers, by category."""

    asked: int = 0
    decided: int = 0
    wrong: list[tuple[str, str]] = field(default_factory=list)

    def note(self, category: str, faults: Iterator[str]) -> None:
        """One question, and what is wrong with its answer: the first of these sentences, if there is one."""
        self.asked += 1
        self.wrong += [(category, sentence) for sentence in islice(faults, 1)]


def batch(seed: int, expressions: int = 12, claims: int = 14) -> Iterator[str]:
    """Asks and compares; yields before each question."""
    random, answers = Random(seed), Answers()
    for _ in range(expressions):
        yield "analysis"
        symbols = SYMBOLS[: random.choice((1, 2, 2, 3))]
        tree = drawn(random, symbols, random.choice((1, 2, 2, 3)))
        _guarded(answers, text(tree), _dim, random, tree, symbols)
        test = drawn_test(random, symbols, random.choice((0, 0, 1, 2)))
        _guarded(answers, text(test), _cond, random, test, symbols)
    yield "analysis"
    yield from _model(answers, random, claims)
    return answers


def _guarded(answers: Answers, what: str, ask: Callable[..., None], *arguments: Any) -> None:
    try:
        ask(answers, *arguments)
    except Exception as error:
        answers.wrong.append(("traceback", f"{what}: {place_of(error)}: {error}"))


def table(tree: Tree, symbols: tuple[str, ...]) -> Rows:
    """Its values wherever nothing is divided by zero."""
    return _rows(tree, points(symbols))


def _rows(tree: Tree, sizes: list[dict[str, int]]) -> Rows:
    found, real = [], meaning(tree)
    for at in sizes:
        try:
            found.append((at, real(at)))
        except Undefined:
            continue
    return found


def _read(answers: Answers, parse: Callable[[str], Any], written: str, rows: list[Any]) -> Any:
    """What a text says; a text may be refused when it divides by zero wherever one looks."""
    try:
        return parse(written)
    except shapesolve.DimSyntaxError as error:
        if rows or "division by zero" not in str(error):
            answers.wrong.append(("refused", f"{written}: {error}"))
        return None


def _dim(answers: Answers, random: Random, tree: Tree, symbols: tuple[str, ...]) -> None:
    written, rows = text(tree), table(tree, symbols)
    dim = _read(answers, shapesolve.parse_dim, written, rows)
    if dim is None:
        return
    said = f"{written} is {dim}"
    answers.note("free symbols", (f"{said}: {n} is free" for n in dim.free_symbols - names(tree)))
    answers.note("value", _differences(said, dim, rows))
    low, high = dim.bounds()
    answers.note(
        "bounds", (f"{said}: {low}..{high}, not at {at}" for at, v in rows if not _within(v, low, high))
    )
    again = shapesolve.parse_dim(str(dim))
    answers.note("printing", (f"{said}, which reads as {x}" for x in [again] if x is not dim))
    _substituted(answers, random, dim, tree, symbols)
    if random.random() < 0.04:
        _sympy(answers, dim, random.sample(rows, min(6, len(rows))))
    if random.random() < 0.04:
        _z3(answers, dim, random.sample(rows, min(3, len(rows))))


def _within(v: int, low: int | None, high: int | None) -> bool:
    return (low is None or v >= low) and (high is None or v <= high)


def _differences(said: str, form: Any, rows: Rows) -> Iterator[str]:
    """Where a dim or condition has another value than the tree."""
    for at, real in rows:
        got = form.evaluate(at)
        if got is None or got != real:
            yield f"{said}: {got} at {at}, really {real}"


def _substituted(answers: Answers, random: Random, dim: Any, tree: Tree, symbols: tuple[str, ...]) -> None:
    name, inside = random.choice(symbols), drawn(random, symbols, 1)
    within, rows = table(inside, symbols), table(composed(tree, name, inside), symbols)
    if not rows or not within or any(v < 0 for _, v in within):
        return  # a size is never negative
    changed = dim.subs({name: shapesolve.parse_dim(text(inside))})
    answers.note("subs", _differences(f"{dim} with {name} := {text(inside)} is {changed}", changed, rows))


def _sympy(answers: Answers, dim: Any, rows: Rows) -> None:
    term = dim.sympy
    found = [(at, term.subs({s: at[s.name] for s in getattr(term, "free_symbols", ())}), v) for at, v in rows]
    answers.note("sympy", (f"{dim} is {term}: {got} at {at}, really {v}" for at, got, v in found if got != v))


def _z3(answers: Answers, dim: Any, rows: Rows) -> None:
    """May the term be its true value, and nothing else?"""
    import z3

    for at, real in rows:
        context = z3.Context()
        term, solver = dim.z3(context), z3.Solver(ctx=context)
        if isinstance(term, int):
            term = z3.IntVal(term, ctx=context)
        solver.add(*(z3.Int(n, ctx=context) == v for n, v in at.items()))
        solver.set("rlimit", 2_000_000)
        verdicts = [solver.check(term == real), solver.check(term != real)]
        impossible = verdicts[0] == z3.unsat or verdicts[1] == z3.sat
        answers.note("z3", iter([f"{dim} at {at}, really {real}: {verdicts}"] if impossible else []))


def _cond(answers: Answers, random: Random, test: Tree, symbols: tuple[str, ...]) -> None:
    written, rows = text(test), table(test, symbols)
    cond = _read(answers, shapesolve.parse_cond, written, rows)
    if cond is None:
        return
    said = f"{written} is {cond}"
    answers.note("truth", _differences(said, cond, rows))
    answers.note("is_true", (f"{said}, always true; not at {at}" for at, v in rows if cond.is_true and not v))
    answers.note("is_false", (f"{said}, never true; but at {at}" for at, v in rows if cond.is_false and v))
    again = shapesolve.parse_cond(str(cond))
    answers.note("printing", (f"{said}, which reads as {x}" for x in [again] if x is not cond))


def model_of(symbols: tuple[str, ...]) -> onnx.ModelProto:
    """A model that asks nothing of its sizes."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, list(symbols))
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [untyped("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _model(answers: Answers, random: Random, claims: int) -> Iterator[str]:
    symbols = SYMBOLS[: random.choice((1, 2, 2, 3))]
    assumed = [drawn_test(random, symbols, 1, 1) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    assumed = [t for t in assumed if table(t, symbols)]
    known = [text(t) for t in assumed]
    try:
        analysis = shapesolve.analyze(model_of(symbols), assume=known)
    except Exception as error:
        answers.wrong.append(("traceback", f"analyze assuming {known}: {place_of(error)}: {error}"))
        return
    stated = [meaning(t) for t in assumed]
    rows = [at for at in points(symbols) if all(_truth(real, at) for real in stated)]
    if analysis.conflicts:
        answers.note("false conflict", (f"assuming {known}: a conflict, but {at} will do" for at in rows))
        return
    for _ in range(claims):
        yield "analysis"
        claim = drawn_test(random, symbols, random.choice((0, 0, 1)), random.choice((1, 1, 2)))
        if not table(claim, symbols):
            continue
        _guarded(answers, f"assuming {known}, {text(claim)}", _claim, analysis, assumed, claim, rows)
    for _ in range(claims // 4):
        yield "analysis"
        tree = drawn(random, symbols, random.choice((1, 2)))
        if not rows or not table(tree, symbols):
            continue
        _guarded(answers, f"assuming {known}, {text(tree)}", _measures, analysis, known, tree, rows)


def _claim(
    answers: Answers, analysis: Any, assumed: list[Tree], claim: Tree, sizes: list[dict[str, int]]
) -> None:
    proof = analysis.prove(text(claim))
    kind = type(proof).__name__
    said, real = f"assuming {[text(t) for t in assumed]}: {text(claim)}: {proof}", meaning(claim)
    answers.decided += kind != "Unknown"
    if kind == "Proved" and not proof.assumptions:
        answers.note("false proof", (f"{said}, but {at}" for at in sizes if _truth(real, at) is False))
    elif kind == "Refuted":
        at = dict(proof.counterexample)
        missing = set().union(names(claim), *map(names, assumed)) - set(at)
        answers.note("partial refutation", (f"{said} without {n}" for n in sorted(missing)))
        true = [claim] if not names(claim) - set(at) and _truth(real, at) is True else []
        broken = [t for t in assumed if not names(t) - set(at) and _truth(meaning(t), at) is False]
        answers.note("false refutation", (f"{said} at {at}, where {text(t)}" for t in true + broken))
    else:
        answers.note("undecided", iter(()))


def _truth(real: Callable[[Mapping[str, int]], Any], at: Mapping[str, int]) -> bool | None:
    try:
        return bool(real(at))
    except Undefined:
        return None


def _measures(
    answers: Answers, analysis: Any, known: list[str], tree: Tree, sizes: list[dict[str, int]]
) -> None:
    written = text(tree)
    rows = _rows(tree, sizes)
    low, high = analysis.bounds(written)
    said = f"assuming {known}: {written}"
    answers.note(
        "false bounds", (f"{said} in {low}..{high}, not {r}" for r in rows if not _within(r[1], low, high))
    )
    k = analysis.divisor(written)
    answers.note(
        "false divisor", (f"{said}: {k} divides it, not {r}" for r in rows if (r[1] % k if k else r[1]))
    )


@dataclass
class Totals:
    """What a campaign of questions saw."""

    asked: int = 0
    decided: int = 0
    faults: list[tuple[int, str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        found = Counter(category for _, category, _ in self.faults)
        wrong = ", ".join(f"{name}: {n}" for name, n in sorted(found.items())) or "none wrong"
        return f"{self.asked} questions, {self.decided} claims decided; {wrong}"


def campaign(
    count: int, seed: int, seconds: float | None = None, say: Callable[[str], None] = lambda _: None
) -> Totals:
    """At least `count` questions, from batches that start at this seed."""
    totals = Totals()
    for at, answer in answers(Worker(batch, (0,)), range(seed, seed + count), seconds):
        if isinstance(answer, Lost):
            found = [(answer.cause, "during a batch")]
        else:
            totals.asked += answer.asked
            totals.decided += answer.decided
            found = answer.wrong
        for category, sentence in found:
            totals.faults.append((at, category, sentence))
            say(f"batch {at}: {category}: {sentence}")
        if totals.asked >= count:
            break
    return totals
