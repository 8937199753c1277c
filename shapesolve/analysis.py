"""`analyze` and its result, `Analysis`."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from .answers.names import item_size
from .answers.solved import Solved
from .answers.solving import solve_request
from .arguments import checked
from .collection import CollectionPaused
from .expr import Cond, Dim, Shape
from .lazy import cached_property
from .lower import Registry
from .lower.request import DEFAULT_RLIMIT, Observer, Progress, Request, Watch, sizes_of
from .lower.semantics import SEMANTICS, Semantics
from .model import ModelError, read_model
from .operators import with_built_in

if TYPE_CHECKING:
    import networkx as nx
    import onnx

    from .answers.derivation import Derivation
    from .answers.judge import Bounds, Divisor
    from .answers.rejected import Rejected, TensorSizes
    from .causes.finding import Conflict, Finding
    from .constraints.audit import Audit
    from .constraints.constraints import ConstraintSystem
    from .lower.types import Known
    from .lower.values import Value
    from .model import Model
    from .solve.ambiguity import Ambiguity
    from .solve.bindings import Bindings
    from .solve.contract.contract import Contract
    from .solve.equality import Equalities
    from .solve.proof import Proof

#: Z3 work per query of an audit, which covers a whole model
AUDIT_RLIMIT = 3 * DEFAULT_RLIMIT
BroadcastMode = Literal["strict", "named", "equal"]

#: functions of packages above this one that methods of `Analysis` call, loaded when used
RENDERERS = {
    "html": "shapesolve.explorer.page:render_html",
    "notebook": "shapesolve.explorer.notebook:render_notebook",
    "explore": "shapesolve.explorer.notebook:explore",
    "json": "shapesolve.report.json:render_json",
    "text": "shapesolve.report.text:render_text",
    "annotated": "shapesolve.change.annotate.annotate:annotate",
    "updated": "shapesolve.change.annotate.annotate:update_shapes",
    "why": "shapesolve.deploy.why:why",
    "checked": "shapesolve.report.gate:checked_findings",
}


@checked
def analyze(
    model: Any,
    *,
    assume: str | Cond | Iterable[str | Cond] = (),
    bind: Mapping[str, int] | None = None,
    broadcast: BroadcastMode = "named",
    semantics: Semantics = "onnxruntime",
    opset: int | None = None,
    registry: Registry | None = None,
    rlimit: int = DEFAULT_RLIMIT,
    progress: Progress | None = None,
    observe: Observer | None = None,
) -> Analysis:
    """Analyze the shapes of a model.

    Args:
        model: A path, bytes, `onnx.ModelProto`, `onnx_ir.Model`, exporter program, or onnxscript function.
        assume: One or more known conditions on the input sizes: ``["total == past + seq", "H % 32 == 0"]``.
        bind: Sizes for symbols, ``{"batch": 2}``.
        broadcast: Treatment of a broadcast of two sizes, neither known to be 1: ``"strict"`` reports it as ambiguous,
            ``"named"`` (default) binds a name that meets a number and notes the assumption, ``"equal"`` also assumes
            that two names are equal.
        semantics: Reference if the ONNX standard and onnxruntime differ (see `lower.semantics`): ``"onnxruntime"``
            (default), which predicts runs, or ``"onnx"``.
        opset: Version of the standard operators to use instead of the one that the model imports.
        registry: Rules for custom operators (see `Registry`), which override the built-in ones.
        rlimit: Limit on Z3's work per query.
        progress: Callback with (nodes done, total nodes), called now and then.
        observe: Callback with each node (`shapesolve.model.Node`) and the known properties of its outputs, by full
            name, in graph order. A node is repeated if later nodes reveal more. An exception from the callback ends
            the analysis.

    Raises:
        ModelError: If the model cannot be read; the message has the reason.
        DimSyntaxError: If an assumption cannot be parsed.
        ValueError: If an argument is invalid.
    """
    if broadcast not in ("strict", "named", "equal"):
        raise ValueError(f'broadcast must be "strict", "named", or "equal", got {broadcast!r}')
    if semantics not in SEMANTICS:
        raise ValueError(f'semantics must be "onnxruntime" or "onnx", got {semantics!r}')
    with CollectionPaused():
        rules = with_built_in(registry)
        stated = (assume,) if isinstance(assume, str | Cond) else tuple(assume)
        request = Request(stated, sizes_of(bind or {}), broadcast, rules, rlimit, semantics=semantics)
        read = read_model(model)
        if opset is not None:
            read = replace(read, opsets=MappingProxyType({**read.opsets, "": int(opset)}))
        return Analysis(solve_request(read, request, Watch(progress, observe)))


def _analyzed_again(source: str | bytes, opsets: Mapping[str, int], options: dict[str, Any]) -> Analysis:
    """Restore a pickled analysis by analyzing its model again."""
    request = Request(**{**options, "rules": options["rules"] or with_built_in(None)})
    return Analysis(solve_request(replace(read_model(source), opsets=MappingProxyType(opsets)), request))


class Analysis:
    """Result of `analyze`: shapes, constraints, contract, findings, and proofs, each computed at first use.

    It is immutable, so copies are the same object. A pickle holds the model (its path, if it came from a file) and
    the arguments of `analyze`; unpickling runs the analysis again.

    >>> import onnx.parser, shapesolve as ss
    >>> text = '<ir_version: 8, opset_import: ["": 17]> g (float[n, 3] x) => (y) { y = Concat<axis = 0>(x, x) }'
    >>> ss.analyze(onnx.parser.parse_model(text)).shapes["y"]
    Shape(2*n, 3)
    """

    def __init__(self, solved: Solved) -> None:
        self._solved = solved

    def __reduce__(self) -> tuple[Any, ...]:
        model, request = self.model, self._solved.request
        source = model.proto.SerializeToString() if model.path is None else str(model.path)
        options = {**request._asdict(), "bind": dict(request.bind), "instead": dict(request.instead)}
        if request.rules is with_built_in(None):
            options["rules"] = None
        return _analyzed_again, (source, dict(model.opsets), options)

    def __copy__(self) -> Analysis:
        return self

    def __deepcopy__(self, memo: object) -> Analysis:
        return self

    @property
    def model(self) -> Model:
        """The parsed model."""
        return self._solved.model

    @property
    def shapes(self) -> Mapping[str, Shape]:
        """`Shape` per tensor; a tensor of unknown rank is absent. Nested graphs: named by scope (``loop_node/body/x``)."""
        return self._solved.shapes

    @property
    def dtypes(self) -> Mapping[str, int]:
        """Element type (`onnx.TensorProto.DataType`) per tensor."""
        return self._solved.dtypes

    @property
    def values(self) -> Mapping[str, Value]:
        """Propagated data (`Value`) per tensor, if any is known."""
        return self._solved.values

    @property
    def inputs(self) -> Mapping[str, Known]:
        """The model's inputs by name, with their types and declared shapes."""
        return self._solved.inputs

    @property
    def outputs(self) -> dict[str, Known]:
        """The model's outputs by name, with their types and shapes."""
        tensors = self._solved.lowered.tensors
        return {name: tensors[name] for name, _ in self.model.graph.outputs if name in tensors}

    @property
    def symbols(self) -> dict[str, Dim]:
        """The dim names of the model's inputs, in order of appearance."""
        return self._solved.symbols

    @property
    def defaults(self) -> tuple[str, ...]:
        """Inputs whose default is assumed to be their value (finding SS502)."""
        return self._solved.defaults

    @property
    def ok(self) -> bool:
        """True if there is no conflict."""
        return self._solved.ok

    @property
    def constraints(self) -> ConstraintSystem:
        """All constraints of nodes, inputs and assumptions, in graph order."""
        return self._solved.constraints

    @property
    def bindings(self) -> Bindings:
        """Symbols with a single possible value: ``{"d_model": 64}``. ``.why(name)`` gives the assumption and the origin."""
        return self._solved.bindings

    @property
    def equalities(self) -> Equalities:
        """Classes of dims, and of tensors' byte sizes, that are provably equal."""
        return self._solved.equalities

    @property
    def contract(self) -> Contract:
        """The irredundant conditions on the input symbols under which the model runs."""
        return self._solved.contract

    @property
    def conflicts(self) -> Sequence[Conflict]:
        """Minimal sets of conditions that cannot hold together, each with a message."""
        return self._solved.conflicts

    @property
    def ambiguities(self) -> Sequence[Ambiguity]:
        """Broadcasts of two sizes that may be equal or 1, which the model does not determine."""
        return self._solved.ambiguities

    def audit(
        self,
        sizes: Iterable[Mapping[str, int]] | None = None,
        *,
        measured: Sequence[Mapping[str, Sequence[int]]] = (),
        changes: int = 50,
        samples: int = 10,
        seed: int = 0,
        rlimit: int = AUDIT_RLIMIT,
    ) -> Audit:
        """Audit this analysis with Z3 alone, from the whole constraint system (see `Audit`).

        Args:
            sizes: Accepted input sizes; by default one set that satisfies the contract.
            measured: Tensor sizes measured at run time, for each of `sizes`.
            changes: Number of random dims to change at the first of `sizes`.
            samples: Number of random dims to check against the system, for all sizes.
            seed: Seed for the random choices.
            rlimit: Limit on Z3's work per query.
        """
        from .constraints.audit import Auditor

        found = self._solved.example
        given = [*sizes] if sizes is not None else [] if found is None else [found]
        runs = [(point, measured[i] if i < len(measured) else {}) for i, point in enumerate(given)]
        auditor = Auditor(self.constraints, self.shapes, self.symbols, rlimit)
        return auditor.judge(runs, changes, samples, seed)

    @cached_property
    def findings(self) -> Sequence[Finding]:
        """All findings, errors first, with stable codes."""
        from .findings.diagnose import diagnose

        return diagnose(self._solved)

    @property
    def diagnostics(self) -> Sequence[Finding]:
        """Deprecated name of `findings`."""
        return self.findings

    @checked
    def prove(self, claim: str | Cond) -> Proof:
        """Prove or refute a claim for every input that the model accepts.

        ``claim`` is a condition over dim names and tensor dims: ``"Z[1] == 2*seq"``. Returns `Proved` (falsy if it
        rests on assumptions, which it lists), `Refuted` with accepted sizes of all inputs at which the claim is
        false, or `Unknown` with the reason.

        Raises `ValueError` for an unknown name, `KeyError` for an unknown tensor, `IndexError` for an invalid axis.
        """
        from .answers.judge import judge

        return judge(self._solved, claim)

    @checked
    def equal(self, a: str | Dim, b: str | Dim) -> Proof:
        """Prove or refute that two dims are equal, as `prove` does."""
        from .answers.judge import judge

        return judge(self._solved, (self.dim(a), self.dim(b)))

    @checked
    def dim(self, text: str | Dim) -> Dim:
        """Parse a dim over dim names and tensor dims (``"Z[1] + seq"``)."""
        from .answers.claim import read_dim

        return read_dim(text, self._solved.lowered)

    @checked
    def bounds(self, text: str | Dim) -> Bounds:
        """Return the lower and upper bound of a dim over all accepted inputs (None: unbounded).

        The bounds' `assumptions` list the assumptions they need (from the `broadcast` mode or a default).
        """
        from .answers.judge import bounds_of

        return bounds_of(self._solved, text)

    @checked
    def divisor(self, text: str | Dim) -> Divisor:
        """Return the largest number that divides a dim for all accepted inputs; 0 if the dim is always 0."""
        from .answers.judge import divisor_of

        return divisor_of(self._solved, text)

    @checked
    def size_in_bytes(self, tensor: str) -> Dim:
        """Return the bytes of a tensor's elements, as a dim.

        Raises `KeyError` for a tensor without a known rank, `ValueError` for one whose elements have no fixed size.
        """
        shape = self.shape(tensor)
        size = item_size(self.dtypes[tensor])
        if not size:
            raise ValueError(f"the elements of tensor {tensor!r} have no fixed size")
        return shape.numel * size

    @checked
    def shape(self, tensor: str, form: Literal["exact", "simple"] = "exact") -> Shape:
        """Return the shape of a tensor: ``exact`` as in `shapes`, or ``simple``.

        The simple form is the most readable one. It has the same sizes as the exact one at all sizes that the model
        accepts, but may differ at others.

        Raises `KeyError` for a tensor without a known rank, `ValueError` for an unknown form.
        """
        if form not in ("exact", "simple"):
            raise ValueError(f'form must be "exact" or "simple", got {form!r}')
        if tensor not in self.shapes:
            from .answers.claim import no_tensor

            known = tensor in self.dtypes
            raise KeyError(
                f"tensor {tensor!r} has unknown rank" if known else no_tensor(tensor, self._solved.lowered)
            )
        return self.shapes[tensor] if form == "exact" else self._solved.simple_shapes[tensor]

    @checked
    def evaluate(self, bindings: Mapping[str, int]) -> TensorSizes:
        """Return the sizes of every tensor whose shape depends only on the bound symbols.

        At rejected sizes, it has the tensors computed before the run stops, and `violations` has the reasons. Raises
        `ValueError` for an unknown name or an invalid size.
        """
        from .answers.claim import tensor_sizes

        return tensor_sizes(self._solved, sizes_of(bindings))

    @checked
    def check_inputs(self, shapes: Mapping[str, Sequence[int]]) -> list[Rejected]:
        """Return the requirements that these concrete input shapes break, with their nodes; none if the model runs.

        If a shape is given for an input with a default, the default is ignored. Raises `ValueError` for an unknown
        name or an invalid shape.
        """
        return self._solved.check_inputs(shapes)

    def why(self, sizes: Mapping[str, int]) -> Any:
        """Return why the model fails at these sizes (`shapesolve.deploy.why.Why`), as `why` prints it; true if it runs."""
        return self._render("why", sizes_of(sizes))

    @checked
    def nearest(self, sizes: Mapping[str, int]) -> dict[str, dict[str, int] | None]:
        """Return the accepted sizes nearest to the given ones, below and above them; None if there are none."""
        return self._solved.nearest(sizes_of(sizes), self._solved.request.assume)

    def check(self) -> tuple[Finding, ...]:
        """Return the findings that `shapesolve check` shows, errors first."""
        return tuple(self._render("checked"))

    @checked
    def bind_inputs(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """Return the sizes of the symbols at concrete input shapes: ``{"x": (2, 5)}`` to ``{"batch": 2, "seq": 5}``."""
        return self._solved.bind_inputs(shapes)

    @checked
    def verify(self, inputs: Mapping[str, Any]) -> Any:
        """Run the model with onnxruntime and compare every tensor's shape with the prediction."""
        from .answers.runtime import verify

        return verify(self._solved, inputs)

    def compare_with_true_inputs(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | Sequence[Any]
    ) -> dict[str, tuple[tuple[str, int, int | None], ...]]:
        """Return rows ``(expression, true size, computed size)`` per output dim, with sizes from a run's arrays."""
        from .answers.runtime import compare

        return compare(self._solved, inputs, outputs)

    @checked
    def explain(self, tensor: str, axis: int | None = None, depth: int | None = None) -> Derivation:
        """Derive a tensor's shape: one `axis`, or all. With `depth`, return only the last `depth` nodes."""
        from .answers.derivation import explain

        return explain(self._solved.lowered, tensor, axis, depth)

    @cached_property
    def graph(self) -> nx.DiGraph[str]:
        """Return the model's graph for NetworkX."""
        return self.model.graph.to_networkx()

    @checked
    def annotate(self, policy: str = "refine", *, contract: bool = False) -> onnx.ModelProto:
        """Return a copy of the model with shapes written as value_info; arguments as for `shapesolve.annotate`."""
        model: onnx.ModelProto = self._render("annotated", policy, contract=contract)
        return model

    def update_shapes(self, model: onnx.ModelProto) -> None:
        """Write shapes of intermediate tensors into the value_info of `model`, in place. `annotate` makes a copy."""
        self._render("updated", model)

    def to_json(self) -> str:
        """Return the report as JSON."""
        text: str = self._render("json")
        return text

    def to_html(self, title: str = "") -> str:
        """Return one self-contained HTML page; `title` is the displayed model name (default: the file name)."""
        text: str = self._render("html", title)
        return text

    def explore(self, height: int = 640) -> Any:
        """Return the explorer as a notebook widget (extra ``notebook``); `height` is in pixels."""
        return self._render("explore", height)

    def _repr_html_(self) -> str:
        text: str = self._render("notebook")
        return text

    def __str__(self) -> str:
        text: str = self._render("text")
        return text

    def __repr__(self) -> str:
        count = len(self.conflicts)
        state = "ok" if not count else f"{count} conflict{'s' if count > 1 else ''}"
        return f"<Analysis of {len(self.model.graph.nodes)} nodes, {len(self.shapes)} shapes: {state}>"

    def _render(self, kind: str, *args: Any, **options: Any) -> Any:
        module, _, function = RENDERERS[kind].partition(":")
        return getattr(importlib.import_module(module), function)(self, *args, **options)


__all__ = ["DEFAULT_RLIMIT", "Analysis", "BroadcastMode", "ModelError", "analyze"]
