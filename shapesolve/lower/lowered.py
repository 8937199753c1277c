"""`Lowered`: the result of lowering a model."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from functools import partial
from typing import TYPE_CHECKING

from ..expr import Dim, Shape
from ..expr.cond import symbols_in
from ..expr.limits import MAX_MEANT
from ..expr.nearest import did_you_mean, like
from ..lazy import cached_property
from ..model import Model, Node
from ..solve.facts.facts import Facts
from ..solve.facts.log import ConstraintSet
from .records import Place
from .rule import Bodies, Rule
from .types import Known, Optional, Sequence, Tensor
from .values import INT_TYPES, Value
from .walk import Walk

if TYPE_CHECKING:
    from ..solve.facts.constraint import Constraint, Site


class Shapes(dict[str, Shape]):
    """Shapes by tensor. A name without one raises a `KeyError` that says why, or which names are similar."""

    def __init__(self, dtypes: Mapping[str, int]) -> None:
        super().__init__()
        self._dtypes = dtypes

    def __missing__(self, name: str) -> Shape:
        if name in self._dtypes:
            raise KeyError(f"tensor {name!r} has unknown rank")
        close = [n for n in self._dtypes if name and name in n][:MAX_MEANT]
        hint = did_you_mean([repr(n) for n in close]) or like(str(name), self._dtypes)
        raise KeyError(f"unknown tensor {name!r}{hint}")


class Lowered:
    """Tensors, inputs, and constraints of a lowered model. It holds no reference to an `Analysis`, which may therefore
    keep it.

    Attributes:
        shapes, dtypes, values: By tensor name, see `Analysis`.
        inputs: Known values of the main graph's inputs.
        facts: Known facts derived from the conditions.
        log, clashes, notes, opens, tensors, producers, aliases, reasons, chosen, named, unnamed, undeclared, poisoned,
            failed, usual, caches, believed, opsets, trips: See `LoweringState`. Later conditions do not simplify `tensors`.
        generated: Generated symbols by name.
    """

    def __init__(self, model: Model, walk: Walk, inputs: Mapping[str, Known], facts: Facts) -> None:
        self.model, self.walk, self.inputs, self.facts = model, walk, dict(inputs), facts
        state = walk.state
        self.log, self.clashes, self.notes, self.opens = state.log, state.clashes, state.notes, state.opens
        self.tensors, self.producers, self.aliases = state.tensors, state.producers, state.aliases
        self.reasons, self.generated = state.reasons, state.made
        self.chosen, self.named, self.unnamed = state.chosen, state.named, state.unnamed
        self.undeclared, self.poisoned, self.failed = state.undeclared, state.poisoned, state.failed
        self.usual, self.caches, self.believed = state.usual, state.caches, state.believed
        self.opsets, self.trips = state.opsets, state.trips
        self.dtypes: dict[str, int] = {}
        self.shapes = Shapes(self.dtypes)
        self.values: dict[str, Value] = {}
        settled: dict[Known, Known] = {}
        for name, known in walk.state.tensors.items():
            now = settled.get(known)
            if now is None:
                now = settled[known] = walk.current(known)
            if isinstance(now, Tensor):
                self.dtypes[name] = now.dtype
                if now.shape is not None:
                    self.shapes[name] = now.shape
                if now.value is not None:
                    self.values[name] = now.value

    @cached_property
    def constraints(self) -> ConstraintSet:
        """Every constraint, in graph order. These are definitions, requirements, declarations, assumptions and the user's
        own.
        """
        return ConstraintSet(self.log, partial(_constraint, self.walk))

    @cached_property
    def symbols(self) -> dict[str, Dim]:
        """The dim names of the model's inputs, in order of appearance."""
        return {n: d for known in self.inputs.values() for n, d in symbols_of(known).items()}

    @property
    def defaults(self) -> tuple[str, ...]:
        """Inputs whose default value is used."""
        return tuple(dict.fromkeys(note.subject for note in self.notes if note.kind == "default"))

    @cached_property
    def unranked(self) -> Mapping[str, bool]:
        """Tensors of unknown rank; True if all inputs of their node have a known rank."""
        tensors = self.tensors
        missing = {n for n, k in tensors.items() if isinstance(k, Tensor) and n not in self.shapes}
        found = {}
        for name in missing and filter(missing.__contains__, tensors):
            node, prefix = self.producers.get(name, (None, ""))
            read = () if node is None else (*node.inputs, *node.captures)
            found[name] = missing.isdisjoint(self.full_name(n, prefix) for n in read if n)
        return found

    @cached_property
    def unranked_behind(self) -> Mapping[str, str]:
        """Tensors that depend on one of unknown rank, each with the first such tensor."""
        first = {name: name for name in self.unranked if name not in self.producers}
        scopes: dict[str, str] = {}
        for name, (node, prefix) in self.producers.items() if self.unranked else ():
            read = [self.full_name(n, prefix) for n in (*node.inputs, *node.captures) if n]
            inner = scopes.get(f"{prefix}{node.label}", "")
            root = next((first[n] for n in read if n in first), "") or inner
            root = root or (name if name in self.unranked else "")
            if root:
                first[name] = root
                around = prefix.rstrip("/")
                while around and around not in scopes:
                    scopes[around] = root
                    around = around.rpartition("/")[0]
        return first

    @cached_property
    def unjudged(self) -> tuple[str, ...]:
        """Tensors that nodes read though no inference determines their rank. The rank is unknown, or follows only from
        the needs of later nodes.
        """
        believed = self.believed
        if not self.unranked and not believed:
            return ()
        made = {(id(node), prefix): (node, prefix) for node, prefix in self.producers.values()}
        read = {
            self.full_name(n, p) for node, p in made.values() for n in (*node.inputs, *node.captures) if n
        }
        return tuple(n for n in self.tensors if n in believed or (n in read and n in self.unranked))

    @cached_property
    def is_open(self) -> bool:
        """Return True if some rank, size, or small value has no symbolic form, so that concrete sizes could determine
        more.
        """
        if self.unranked or self.believed or any(note.kind == "open" for note in self.notes):
            return True
        made = {d for shape in set(self.shapes.values()) for d in shape if d.terms}
        return any(not d.free <= self.symbols.keys() for d in made) or any(map(self._given_up, self.dtypes))

    def _given_up(self, tensor: str) -> bool:
        """Return True if a small integer tensor has unknown elements though its node's inputs are known."""
        node, prefix = self.producers.get(tensor, (None, ""))
        rule = None if node is None else self.rule(node, prefix)
        made = self.values.get(tensor)
        if node is None or rule is None or not rule.values or self.dtypes[tensor] not in INT_TYPES:
            return False
        if not node.inputs or (made is not None and (made.elems is None or None not in made.elems)):
            return False
        read = [self.values.get(self.full_name(name, prefix)) for name in node.inputs if name]
        return all(v is not None and v.elems is not None and None not in v.elems for v in read)

    def full_name(self, name: str, prefix: str) -> str:
        """Full name of the tensor that `name` means in the scope `prefix`."""
        return self.walk.full_name(name, prefix)

    def is_stored(self, tensor: str) -> bool:
        """Return True if the tensor is an initializer or the output of a Constant."""
        made = self.producers.get(tensor)
        if made is not None:
            return made[0].is_constant
        return tensor not in self.inputs and tensor not in self.aliases

    def outer(self, tensor: str) -> str:
        """Return the tensor that an input of a subgraph or function stands for, or the tensor itself."""
        seen = {tensor}
        while tensor not in self.producers and tensor in self.aliases:
            tensor = self.full_name(*self.aliases[tensor])
            if tensor in seen:
                break
            seen.add(tensor)
        return tensor

    def behind(self, *tensors: str, sizes: bool = False) -> Iterator[str]:
        """Yield the tensors from which these are computed, nearest first, and these.

        Without `sizes`, those are left out of which only the sizes are read.
        """
        waiting, seen = deque(tensors), set(tensors)
        while waiting:
            name = waiting.popleft()
            yield name
            made = self.producers.get(name)
            rule = None if made is None else self.rule(*made)
            names = []
            if made is not None and (sizes or rule is None or not rule.sizes):
                names = [self.full_name(n, made[1]) for n in made[0].inputs if n]
            elif made is None and name in self.aliases:
                names = [self.full_name(*self.aliases[name])]
            waiting += (n for n in names if n not in seen)
            seen.update(names)

    def owners(self, prefix: str) -> tuple[str, ...]:
        """Labels of the nodes around a scope (If, Loop, function call), innermost first."""
        found = []
        while prefix:
            inside, prefix = prefix.rstrip("/"), ""
            for label in (inside, inside.rpartition("/")[0]):
                if label in self.scopes:
                    found.append(label)
                    _, prefix = self.scopes[label]
                    break
        return tuple(found)

    def around(self, prefix: str) -> list[Bodies]:
        """Kinds of the subgraphs around a scope (branch, loop ...), innermost first. Functions are not counted."""
        rules = (self.rule(*self.scopes[label]) for label in self.owners(prefix))
        return [rule.bodies for rule in rules if rule is not None and rule.bodies]

    @cached_property
    def scopes(self) -> dict[str, tuple[Node, str]]:
        """For each node label, the node and its scope."""
        return {f"{at}{node.label}": (node, at) for node, at in self.producers.values()}

    def rule(self, node: Node, prefix: str) -> Rule | None:
        """Return the rule of a node's operator."""
        return self.walk.operators.rule(node, self.opsets[prefix])

    def data_inputs(self, node: Node, prefix: str) -> tuple[int, ...]:
        """Return the indices of inputs that a node reads for their elements."""
        rule = self.rule(node, prefix)
        return () if rule is None else rule.data


def _constraint(walk: Walk, number: int) -> Constraint:
    from ..solve.facts.constraint import Constraint, Origin

    entry = walk.state.log[number]
    if entry.node is None:
        return Constraint(entry.cond, entry.role, Origin("", "", entry.why), entry.guard)
    names = entry.node.inputs
    if (
        entry.role == "declared"
    ):  # the place of an output; other places are inputs, and trailing inputs may be absent
        names = (*names, *entry.node.outputs)
    sites = stated_sites(walk, names, entry.prefix, entry.places)
    origin = Origin(f"{entry.prefix}{entry.node.label}", entry.node.op_type, entry.why, sites)
    return Constraint(entry.cond, entry.role, origin, entry.guard)


def stated_sites(walk: Walk, names: Seq[str], prefix: str, places: Iterable[Place]) -> tuple[Site, ...]:
    """Return a node's places as sites: an element of a vector is on its axis 0."""
    from ..solve.facts.constraint import Site

    found = []
    for i, axis in places:
        if i < len(names):
            tensor = walk.full_name(names[i], prefix)
            known = walk.state.tensors.get(tensor)
            rank = len(known.shape) if isinstance(known, Tensor) and known.shape is not None else None
            if axis is not None and rank is not None and axis >= rank:
                axis = 0 if rank == 1 else None
            found.append(Site(tensor, axis))
    return tuple(found)


def symbols_of(known: Known | None) -> dict[str, Dim]:
    """Symbols of an input by name, in order of appearance."""
    if isinstance(known, Tensor):
        return {n: d for size in known.shape or () for n, d in sorted(symbols_in(size).items())}
    if isinstance(known, (Sequence, Optional)):
        return symbols_of(known.elem)
    return {}
