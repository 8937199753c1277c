# compiled: see CONTRIBUTING.md
"""The registry: which rule lowers which operator at which opset version."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Union

if TYPE_CHECKING:
    from .op import Op
    from .records import Body
    from .types import Known
    from .work import Work

Outputs = Union["Known", None, Seq[Union["Known", None]]]
#: a rule's body: reads the node through `Op`, states requirements, returns its outputs in order
Lower = Callable[["Op"], Outputs]
#: that of an operator that runs graphs: it yields each body that is to be lowered, and goes on when that is done
Steps = Generator["Body", None, Outputs]
LowerBodies = Callable[["Op"], Steps]
Form = Literal["signature", "function", "body", "schema"]
#: versions as in the seeds: None every version, int this one and later, range exactly these
Versions = int | range | None
#: how the rank of the first output follows from those of the inputs: it is that of the first one, that of all of them,
#: or the largest (they broadcast); empty where it does not
Ranks = Literal["", "first", "all", "broadcast"]
#: what may be put right where the sizes of a node do not fit (see `explain.advice`)
Advice = Literal["", "convolution", "product", "gemm", "join", "parts", "target", "ends"]
#: what onnxruntime does beside the standard: it has a kernel on the CPU of its own, or (where a kernel is the rule, see
#: `Rule.has_kernel`) none; it knew an operator early, before it came into the standard; it kept one that is withdrawn; it
#: holds attributes against no declaration
Runtime = Literal["kernel", "no kernel", "early", "kept", "any attribute"]
#: element types of outputs: an int copies that input's, a name is a TensorProto type
TypeSpec = int | str
#: per attribute the values that it may have
Choices = Mapping[str, Seq[int | str]]

#: domains whose operators have kernels, as a rule
_STANDARD = ("", "ai.onnx.ml")


@dataclass(frozen=True, slots=True)
class Rule:
    """What is declared of one operator from opset version `since` up to the next rule's (or below `until`).

    Attributes:
        lower: gives the outputs; a `Lower`, with `bodies` a `LowerBodies`.
        types: element types of the outputs, where no schema tells them.
        values: does it follow partial data?
        choices: values of attributes with which a runtime loads the node; attributes not named there are free.
        data: inputs of which it reads the elements, not the sizes: a target shape, axes, indices.
        elements: inputs of which it reads both: lengths of sequences, which it holds against sizes.
        vectors: of these, the ones that must have rank 1; `flat` those that must have rank 0 or 1.
        ranks: see `Ranks`; a signature tells it by itself.
        needs: for operators without a schema, the inputs in order (``r`` is required, ``.`` may be absent, what follows the
            last required one is left out), then the required attributes: ``"r.r num_heads"``.
        fault: what a node does whose sizes do not fit, after the operator's name: ``cannot join these shapes``.
        advice: what may be put right then.
        sizes: does the output hold sizes of the input, of which no element is read?
        draws: does it give something else each time that it runs?
        runtime: see `Runtime`.
        work: what it computes, and whether its output needs memory of its own; None where that is not counted.
    """

    domain: str
    op_type: str
    since: int
    lower: Callable[[Op], Any]
    form: Form = "function"
    until: int | None = None
    types: tuple[TypeSpec, ...] | None = None
    values: bool = False
    bodies: bool = False
    choices: Choices | None = None
    data: tuple[int, ...] = ()
    elements: tuple[int, ...] = ()
    vectors: tuple[int, ...] = ()
    flat: tuple[int, ...] = ()
    ranks: Ranks = ""
    needs: str | None = None
    fault: str = ""
    advice: Advice = ""
    sizes: bool = False
    draws: bool = False
    runtime: tuple[Runtime, ...] = ()
    work: Work | None = None

    @property
    def has_kernel(self) -> bool:
        """Does onnxruntime run the operator by a kernel on the CPU, whatever functions of that name a model defines?

        https://github.com/microsoft/onnxruntime/blob/main/docs/OperatorKernels.md
        """
        return "kernel" in self.runtime or (self.domain in _STANDARD and "no kernel" not in self.runtime)

    @property
    def rank_relation(self) -> Ranks:
        """What is declared of the ranks, or what the signature tells."""
        told: Ranks = getattr(self.lower, "ranks", "") if self.form == "signature" else self.ranks
        return told

    def covers(self, version: int) -> bool:
        """Does the rule speak of this opset version?"""
        return self.since <= version and (self.until is None or version < self.until)


@dataclass(slots=True)
class Registry:
    """Rules by domain and operator; a child registry overlays its parent.

    >>> registry = Registry(parent=default_registry())
    >>> @registry.register("com.custom", "MyOp")
    ... def my_op(op):
    ...     return op.out(op.shape(0))
    """

    parent: Registry | None = None
    _rules: dict[tuple[str, str], list[Rule]] = field(default_factory=dict)

    def add(self, rule: Rule) -> None:
        """Add one rule; among rules that cover a version the highest `since` wins, then the latest added."""
        self._rules.setdefault((rule.domain, rule.op_type), []).append(rule)

    def register(
        self,
        domain: str,
        op_type: str,
        versions: Versions = None,
        *,
        types: tuple[TypeSpec, ...] | None = None,
        form: Form = "function",
        values: bool = False,
        data: tuple[int, ...] = (),
        ranks: Ranks = "",
        work: Work | None = None,
    ) -> Callable[[Lower], Lower]:
        """Decorator that registers a lowering function (see `Op`) for an operator; what it tells of it is in `Rule`."""
        since, until = 0, None
        if isinstance(versions, range):
            since, until = versions.start, versions.stop
        elif versions is not None:
            since = versions

        def decorate(lower: Lower) -> Lower:
            rule = Rule(_canonical(domain), op_type, since, lower, form, until, types, values)
            self.add(replace(rule, data=data, ranks=ranks, work=work))
            return lower

        return decorate

    def signature(
        self,
        op_type: str,
        dims: str,
        *,
        domain: str = "",
        since: int = 0,
        until: int | None = None,
        where: str | Seq[str] = (),
        types: tuple[TypeSpec, ...] | None = None,
        choices: Choices | None = None,
        needs: str | None = None,
        fault: str = "",
        runtime: tuple[Runtime, ...] = (),
        work: Work | None = None,
        **names: str | int,
    ) -> None:
        """Register an operator by its signature (notation: see `shapesolve.lower.signature`)."""
        from .signature import Signature

        rule = Signature(dims, (where,) if isinstance(where, str) else tuple(where), names)
        form: Form = "signature"
        made = Rule(_canonical(domain), op_type, since, rule, form, until, types, choices=choices)
        self.add(replace(made, needs=needs, fault=fault, runtime=runtime, work=work))

    def lookup(self, domain: str, op_type: str, version: int) -> Rule | None:
        """The rule for an operator at an opset version: exact ranges first, then the highest `since`; None if there is none."""
        found = self._rules.get((_canonical(domain), op_type), ())
        best = max([rule for rule in reversed(found) if rule.covers(version)], key=_rank, default=None)
        return best or (self.parent.lookup(domain, op_type, version) if self.parent else None)

    def over(self, base: Registry) -> Registry:
        """A registry in which `base` is below all of this one; this one stays as it is."""
        if self is base:
            return self
        below = base if self.parent is None else self.parent.over(base)
        return self if below is self.parent else Registry(below, self._rules)

    def __iter__(self) -> Iterator[Rule]:
        if self.parent:
            yield from self.parent
        for rules in self._rules.values():
            yield from rules


def _rank(rule: Rule) -> tuple[bool, int]:
    return rule.until is not None, rule.since


def _canonical(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


DEFAULT = Registry()


def lower(
    *op_types: str,
    since: int = 0,
    until: int | None = None,
    domain: str = "",
    types: tuple[TypeSpec, ...] | None = None,
    values: bool = False,
    choices: Choices | None = None,
    data: tuple[int, ...] = (),
    elements: tuple[int, ...] = (),
    vectors: tuple[int, ...] = (),
    flat: tuple[int, ...] = (),
    ranks: Ranks = "",
    needs: str | None = None,
    fault: str = "",
    advice: Advice = "",
    sizes: bool = False,
    draws: bool = False,
    runtime: tuple[Runtime, ...] = (),
    work: Work | None = None,
) -> Callable[[Lower], Lower]:
    """Register a function for operators of the default registry; what else is told of them is in `Rule`."""

    def decorate(function: Lower) -> Lower:
        told = (
            until,
            types,
            values,
            False,
            choices,
            data,
            elements,
            vectors,
            flat,
            ranks,
            needs,
            fault,
            advice,
            sizes,
            draws,
            runtime,
            work,
        )
        for name in op_types:
            DEFAULT.add(Rule(domain, name, since, function, "function", *told))
        return function

    return decorate


def lower_bodies(
    *op_types: str,
    since: int = 0,
    until: int | None = None,
    data: tuple[int, ...] = (),
    runtime: tuple[Runtime, ...] = (),
) -> Callable[[LowerBodies], LowerBodies]:
    """Register a function for standard operators that run graphs."""

    def decorate(function: LowerBodies) -> LowerBodies:
        for name in op_types:
            rule = Rule("", name, since, function, until=until, values=True, bodies=True, data=data)
            DEFAULT.add(replace(rule, runtime=runtime))
        return function

    return decorate


signature = DEFAULT.signature
