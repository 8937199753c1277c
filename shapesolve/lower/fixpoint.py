# compiled: see CONTRIBUTING.md
"""Lowers a model repeatedly until no more is learned about its inputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..expr import Cond, Dim, Shape, eq, ge, parse_cond, symbol
from ..expr.grammar import is_word
from ..expr.nearest import unknown_name
from ..expr.parse import JOINED, dim_from_param, is_malformed
from ..model import Graph, Model, Node, TensorType, ValueType
from ..model.errors import quoted
from ..solve.facts.facts import Facts
from . import Known
from .declared import declared_known, unnamed_dim
from .limits import MAX_ROUNDS
from .lowered import Lowered, symbols_of
from .request import OtherShape, Request, Watch
from .rule import Ranks
from .types import Tensor
from .values import Value
from .walk import Walk

#: names that exporters make up: torch's `s0`, onnx's `unk__0`, `images_dynamic_axes_1` of torch.onnx
_GENERATED = re.compile(r"[su]\d+|unk__\d+|(\w+_)?dynamic_axes_\d+")


def lower_model(read: Model, request: Request, watch: Watch | None = None) -> Lowered:
    """Lower a model, and repeat as long as that reveals ranks or names of its inputs.

    Raises:
        DimSyntaxError: If an assumption cannot be parsed.
        ValueError: If an assumption or `bind` uses an unknown name.
    """
    hints: dict[str, Shape] = {}
    names: dict[str, str] = {}
    for _ in range(MAX_ROUNDS):
        walk, facts, given = _walk(read, request, hints, names, watch)
        if walk.is_stopped:
            return Lowered(read, walk, given, facts)
        learned = {**walk.state.hints, **_ranks_of_inputs(walk, given)}
        if learned.keys() <= hints.keys() and walk.state.author == names:
            learned = {**hints, **_only_ranks(walk, read, request, hints, names)}
            if learned.keys() == hints.keys():
                break
        hints, names = learned, dict(walk.state.author)
    if request.bind or request.assume:
        _check_names(request, _symbols(given, names))
    return Lowered(read, walk, given, facts)


def _only_ranks(
    walk: Walk, model: Model, request: Request, hints: Mapping[str, Shape], names: Mapping[str, str]
) -> dict[str, Shape]:
    """Return the ranks that depend on sizes, if exactly one of few candidates lets later nodes run."""
    found: dict[str, Shape] = {}
    few = [
        (n, ranks)
        for n, ranks in walk.state.possible_ranks.items()
        if n and n not in hints and len(ranks) <= MAX_ROUNDS
    ]
    for name, ranks in few[: 0 if walk.state.clashes else MAX_ROUNDS]:
        shapes = [Shape(symbol(f"{name}_d{i}") for i in range(rank)) for rank in ranks]
        trials = [{**hints, **found, name: shape} for shape in shapes]
        fit = [t for t in trials if not _walk(model, request, t, names, None)[0].state.clashes]
        if len(fit) == 1 < len(trials):
            found[name] = fit[0][name]
    return found


def _walk(
    model: Model,
    request: Request,
    hints: Mapping[str, Shape],
    names: Mapping[str, str],
    watch: Watch | None,
) -> tuple[Walk, Facts, dict[str, Known]]:
    facts = Facts()
    walk = Walk(model, request, facts, watch)
    walk.state.hints, walk.state.author = dict(hints), dict(names)
    walk.state.opaque = dict.fromkeys(sorted(request.opaque, key=str))
    texts = list(_declared_names(model.graph))
    walk.reserve(texts)
    walk.state.words.update(n for text in texts for n in (text, *_words(text)))
    walk.reserve(name for shape in hints.values() for name in shape.free_symbols())
    given = _inputs(walk, model, request)
    symbols = _symbols(given, names)
    for name in sorted(symbols, key=lambda n: (n in walk.state.unnamed, _GENERATED.fullmatch(n) is not None)):
        facts.introduce(
            name
        )  # The first of several equal names is kept: the author's names precede generated ones.
    for cond in _conditions(request, symbols):
        walk.given(cond)
    for size in symbols.values() if request.filled else ():
        walk.define(ge(size, 1), "inputs are assumed to be non-empty", None, "assumption")
    if malformed := [*dict.fromkeys(filter(is_malformed, texts))]:
        more = f" (and {len(malformed) - 1} more)" if len(malformed) > 1 else ""
        what = f"the dim {quoted(malformed[0])}{more} is not a valid expression: it is treated as a name"
        walk.note("file", what, None, walk.scope)
    for remark in model.remarks:
        walk.note("file", remark, None, walk.scope)
    for fault in model.faults:
        walk.clash(fault, None, walk.scope, loads=False)
    walk.run(given, symbols)
    return walk, facts, given


def _conditions(request: Request, symbols: Mapping[str, Dim]) -> Iterator[Cond]:
    """Yield the user's conditions, parsed over these symbols. Others may yet get to be known, see `_check_names`."""
    for name, size in request.bind.items():
        if name in symbols:
            yield eq(symbols[name], size)
    for item in request.assume:
        cond = item if isinstance(item, Cond) else parse_cond(item, symbols)
        if cond.free <= {n for d in symbols.values() for n in d.free}:
            yield cond


def _check_names(request: Request, symbols: Mapping[str, Dim]) -> None:
    """Raise `ValueError` for a dim name that no input has."""
    for name in request.bind:
        if name not in symbols:
            raise ValueError(unknown_name("dim", name, symbols))
    for item in request.assume:
        cond = item if isinstance(item, Cond) else parse_cond(item, symbols)
        for name in sorted(cond.free - {n for d in symbols.values() for n in d.free}):
            raise ValueError(f"{unknown_name('input dim', name, symbols)} (in the assumption {str(item)!r})")


def _symbols(given: Mapping[str, Known], names: Mapping[str, str]) -> dict[str, Dim]:
    found = {n: d for known in given.values() for n, d in symbols_of(known).items()}
    return {**found, **{generated: found[name] for generated, name in names.items() if name in found}}


def _inputs(walk: Walk, model: Model, request: Request) -> dict[str, Known]:
    graph = model.graph
    given: dict[str, Known] = {}
    for name, declared in graph.inputs:
        if (
            name in graph.initializers and name not in request.untaken
        ):  # its default is taken (a note says so)
            continue
        known = declared_known(walk, declared, name)
        if known is None:
            known = walk.interner.tensor(0, None)
        hint = walk.state.hints.get(name)
        if hint is not None and isinstance(known, Tensor) and known.shape is None:
            if name.isidentifier():
                hint = Shape(unnamed_dim(walk, f"{name}_d{i}") for i in range(len(hint)))
            known = walk.interner.tensor(known.dtype, hint)
            walk.state.undeclared.update(hint.free_symbols())
        if isinstance(known, Tensor):
            for axis, d in enumerate(known.shape or ()):
                lo = d.bounds()[0]
                if lo is None or lo < 0:
                    walk.declare_size(d, f"{name}[{axis}]")
            elems = request.instead.get(name)
            if known.shape is not None and isinstance(elems, tuple) and not isinstance(elems, OtherShape):
                sizes = tuple(
                    [d.const for d in known.shape]
                )  # an input whose elements are given has a fixed shape
                known = walk.interner.tensor(known.dtype, known.shape, Value(sizes, elems))
        given[name] = known
    return given


def _declared_names(graph: Graph) -> Iterator[str]:
    """Every dim name that the main graph declares, so that generated names differ."""
    for _, declared in (*graph.inputs, *graph.outputs, *graph.value_info.items()):
        yield from _dim_names(declared)


def _words(text: str) -> Iterator[str]:
    """Yield the names in a declared dim, which may be an expression."""
    if is_word(text):
        yield text
    elif not JOINED.fullmatch(text):
        yield from dim_from_param(text).free


def _dim_names(declared: ValueType | None) -> Iterator[str]:
    if isinstance(declared, TensorType):
        yield from (d for d in declared.dims or () if isinstance(d, str))
    elif declared is not None and hasattr(declared, "elem"):
        yield from _dim_names(declared.elem)


def _ranks_of_inputs(walk: Walk, given: Mapping[str, Known]) -> dict[str, Shape]:
    """Return the shapes of new symbols for inputs of unknown rank, if later nodes determine the rank."""
    missing = [name for name, known in given.items() if isinstance(known, Tensor) and known.shape is None]
    if not missing:
        return {}
    ranks = {
        n: len(k.shape)
        for n, k in walk.state.tensors.items()
        if isinstance(k, Tensor) and k.shape is not None
    }
    ranks.update((name, len(shape)) for name, shape in walk.state.hints.items())
    for node in reversed(walk.model.graph.nodes):
        if any(n and n not in ranks for n in node.inputs):
            rule = walk.operators.rule(node, walk.model.opsets)
            ranks.update(_ranks_before(node, "" if rule is None else rule.rank_relation, ranks))
    found = ((name, ranks[name]) for name in missing if name in ranks)
    return {name: Shape(symbol(f"{name}_d{i}") for i in range(rank)) for name, rank in found}


def _ranks_before(node: Node, relation: Ranks, ranks: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the ranks of a node's inputs that follow from the rank of its first output."""
    rank = ranks.get(node.outputs[0]) if node.outputs else None
    if rank is None:
        return
    if relation == "first":
        yield from ((n, rank) for n in node.inputs[:1] if n)
    elif relation == "all":
        yield from ((n, rank) for n in node.inputs if n)
    elif relation == "broadcast":
        unknown = [n for n in dict.fromkeys(node.inputs) if n and n not in ranks]
        if len(unknown) == 1 and all(ranks[n] < rank for n in node.inputs if n in ranks):
            yield unknown[0], rank
