# compiled: see CONTRIBUTING.md
"""`Rule`: the declaration of an operator; `Rules`: the rules by operator and opset version.

Whatever lowers a node reads these records, so that they know nothing of what does: a rule's function is kept and not called.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..expr import ZERO, Dim, IntoDim, Shape

if TYPE_CHECKING:
    from random import Random

#: an output shares the memory of input 0 (`view`), may be written over an input of its size (`over`), or needs its own
Memory = Literal["", "view", "over"]
Form = Literal["signature", "function", "body", "schema"]
#: versions as in the seeds: None every version, int this one and later, range exactly these
Versions = int | range | None
#: relation of the first output's rank to the input ranks: the first input's rank, the rank that all inputs share, or
#: the largest (they broadcast); empty: none
Ranks = Literal["", "first", "all", "broadcast"]
#: kinds of advice where the sizes of a node do not fit (see `explain.advice`)
Advice = Literal["", "convolution", "product", "gemm", "join", "parts", "target", "ends"]
#: departures of onnxruntime from the standard: a separate CPU kernel, or (if a kernel is the rule, see
#: `Rule.has_kernel`) none; support before the standard added the operator; support after its removal; attributes that
#: are not checked against a declaration; a crash or an error for an empty input
Runtime = Literal["kernel", "no kernel", "early", "kept", "any attribute", "never empty"]
#: a node runs one of its graphs, its graph once per iteration, or its graph once per sequence element; empty: none
Bodies = Literal["", "one", "trips", "elements"]
#: element types of outputs: an int copies that input's, a name is a TensorProto type
TypeSpec = int | str
#: per attribute the values that it may have
Choices = Mapping[str, Seq[int | str]]

#: in letters, or a function of an `Op` and the shapes of its outputs
Axes = str | Callable[[Any, Seq["Shape | None"]], Any]
#: each element of the output is computed of one of each input
EACH = "~S... -> ~S"
#: of the only input
SAME = "*S -> *S"
#: of the first input; the others are scalar parameters (bounds, ratios, types)
FIRST = "*S, ?... -> *S"

#: domains whose operators have kernels, as a rule
_STANDARD = ("", "ai.onnx.ml")


class Operations(NamedTuple):
    """Work of a node: multiply-accumulates, and other operations."""

    macs: Dim = ZERO
    other: Dim = ZERO

    @property
    def flops(self) -> Dim:
        """Floating point operations: a MAC counts as two."""
        return self.macs.scale(2) + self.other


class Work:
    """Declaration of a node's number of operations and of its first output's memory.

    `count` takes an `Op` and the output shapes (None if the rank is unknown); it returns None if a shape it needs is
    unknown.
    """

    __slots__ = ("count", "memory")

    def __init__(
        self, count: Callable[[Any, Seq[Shape | None]], Operations | None], memory: Memory = ""
    ) -> None:
        self.count, self.memory = count, memory


#: sizes of the inputs of a node
Sizes = Seq["tuple[int, ...] | None"]
Pick = Callable[["Random", Mapping[str, Any], Sizes, int], "Seq[float] | None"]


class Reading(NamedTuple):
    """Use of an input's elements: purpose, minimum, and maximum.

    `limits` takes the attributes and the input shapes, and returns the minimum and the maximum, or one of each per
    column of
    the last axis; None if a shape it needs is unknown. `pick` samples all elements of a short list together, if they
    depend on
    each other or few are valid: it takes the random generator, the attributes, the input sizes (None if unknown), and
    the number
    of elements; it returns None if it does not apply.
    """

    what: str
    limits: Callable[[Mapping[str, Any], Seq[Shape | None]], tuple[IntoDim, Dim, *tuple[Dim, ...]] | None]
    pick: Pick | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """Declaration of an operator from opset version `since` up to the next declaration (or `until`).

    Attributes:
        lower: Computes the outputs; a `Lower`, or with `bodies` a `LowerBodies`.
        bodies: Which of its graphs it runs, and how often (see `Bodies`).
        types: Element types of the outputs, if no schema has them; default: the first input's, unless the model
            declares
            another.
        values: True if it propagates partial data.
        choices: Attribute values with which a runtime loads the node; attributes not named there are free.
        data: Inputs used for their elements, not for their sizes: a target shape, axes, indices.
        elements: Inputs used for both: lengths of sequences, which are checked against sizes.
        together: Inputs of which the kernel takes all or none; one alone is needed, though the schema says optional.
        named: Optional inputs that may be left out, but not by an empty name.
        vectors: Data inputs that must have rank 1; `flat` are those that must have rank 0 or 1.
        ranks: See `Ranks`; a signature implies it.
        fault: What a node with invalid sizes does, after the operator's name: ``cannot join these shapes``.
        advice: Possible fix for such a node.
        sizes: True if the output holds sizes of the input, whose elements are not read.
        draws: True if the result is random.
        commutes: True if swapping its two inputs does not change the result.
        runtime: See `Runtime`.
        reads: By input, purpose and range of its integers.
        passes: Inputs whose elements the outputs hold, in any order; with `held`, only that many of the first ones.
        work: Its operations, and whether its output needs separate memory; None if not counted.
        axes: Which output axes carry which input axes, in letters or as a function (see `lower.axes`); None if not
            declared.
    """

    domain: str
    op_type: str
    since: int
    lower: Callable[[Any], Any]
    form: Form = "function"
    until: int | None = None
    types: tuple[TypeSpec, ...] | None = None
    values: bool = False
    bodies: Bodies = ""
    choices: Choices | None = None
    data: tuple[int, ...] = ()
    elements: tuple[int, ...] = ()
    vectors: tuple[int, ...] = ()
    together: tuple[tuple[int, ...], ...] = ()
    named: tuple[int, ...] = ()
    flat: tuple[int, ...] = ()
    ranks: Ranks = ""
    fault: str = ""
    advice: Advice = ""
    sizes: bool = False
    draws: bool = False
    runtime: tuple[Runtime, ...] = ()
    work: Work | None = None
    reads: Mapping[int, Reading] | None = None
    passes: Container[int] = ()
    held: int | None = None
    axes: Axes | None = None
    commutes: bool = False

    @property
    def has_kernel(self) -> bool:
        """True if onnxruntime has a CPU kernel for the operator. A model's functions of that name do not matter.

        https://github.com/microsoft/onnxruntime/blob/main/docs/OperatorKernels.md
        """
        return "kernel" in self.runtime or (self.domain in _STANDARD and "no kernel" not in self.runtime)

    @property
    def rank_relation(self) -> Ranks:
        """Relation of input and output ranks, as declared or by signature or axes."""
        stated: Ranks = getattr(self.lower, "ranks", "") if self.form == "signature" else self.ranks
        return stated or ("broadcast" if self.axes == EACH else "first" if self.axes in (SAME, FIRST) else "")

    def covers(self, version: int) -> bool:
        """Return True if the rule applies to this opset version."""
        return self.since <= version and (self.until is None or version < self.until)


class Rules:
    """Rules by domain and operator, with a parent as fallback."""

    __slots__ = ("_rules", "parent", "seek", "supply")

    def __init__(
        self, parent: Rules | None = None, rules: dict[tuple[str, str], list[Rule]] | None = None
    ) -> None:
        self.parent = parent
        self._rules: dict[tuple[str, str], list[Rule]] = {} if rules is None else rules
        #: called with a domain and an operator before it is looked up: adds what is known of it and not here yet
        self.supply: Callable[[str, str], None] | None = None
        #: called for an operator that nothing else knows; returns True if there may be new rules
        self.seek: Callable[[], bool] | None = None

    def add(self, rule: Rule) -> None:
        """Add a rule; of those that cover a version the highest `since` wins, then the latest."""
        self._rules.setdefault((rule.domain, rule.op_type), []).append(rule)

    def lookup(self, domain: str, op_type: str, version: int) -> Rule | None:
        """Return the rule for an operator at an opset version, or None. Exact ranges come first, then the highest
        `since`.
        """
        if self.supply is not None:
            self.supply(domain, op_type)
        found = self._rules.get((canonical(domain), op_type), ())
        best = max([rule for rule in reversed(found) if rule.covers(version)], key=_rank, default=None)
        return best or (self.parent.lookup(domain, op_type, version) if self.parent else None)

    def sought(self, domain: str, op_type: str, version: int) -> Rule | None:
        """Return the rule for an operator that nothing else knows, from installed plugins; None if there is none."""
        root = self
        while root.parent is not None:
            root = root.parent
        if root.seek is None or not root.seek():
            return None
        return self.lookup(domain, op_type, version)

    def over(self, base: Rules) -> Rules:
        """Return a copy of these rules with `base` as the last fallback."""
        if self is base:
            return self
        below = base if self.parent is None else self.parent.over(base)
        return self if below is self.parent else Rules(below, self._rules)

    def __iter__(self) -> Iterator[Rule]:
        if self.parent:
            yield from self.parent
        for rules in self._rules.values():
            yield from rules


def _rank(rule: Rule) -> tuple[bool, int]:
    return rule.until is not None, rule.since


def canonical(domain: str) -> str:
    """Return the domain as rules name it (``ai.onnx`` is empty)."""
    return "" if domain == "ai.onnx" else domain


def in_standard(domain: str) -> bool:
    """Return True if the domain is one of the ONNX standard."""
    return not domain or domain == "ai.onnx" or domain.startswith("ai.onnx.")
