"""Data of the explorer page: tables that refer to each other by row number.

The front end (``frontend``) folds, searches, evaluates, and derives from these tables alone; data from the model
never becomes markup or code there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from onnx import TensorProto

from ..answers.names import dtype_name
from ..expr import Cond, Dim, Shape, all_of, implies, symbol
from ..lower.types import Tensor
from ..model import ModelError
from ..model.constant import Constant
from ..solve.contract.contract import heading
from ..solve.facts.log import need
from ..solve.sizes import distinct
from .deployment import deployment_data
from .expressions import Expressions
from .limits import ALIKE, MAX_ELEMENTS, MAX_TEXT
from .scopes import NUMBER, Scoped, find_scopes

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..model import Graph, Model, Node
    from ..solve.contract.contract import Term


def attribute_texts(node: Node) -> list[tuple[str, str]]:
    """Return the name and value of each attribute."""
    return [(name, _clipped(_text(value))) for name, value in node.attributes.items()]


def stored_text(stored: Any) -> str:
    """Return the elements of a small stored tensor as a string; empty for others."""
    if not isinstance(stored, Constant) or stored.numel > MAX_ELEMENTS:
        return ""
    try:
        array = stored.array(MAX_ELEMENTS)
    except (ModelError, OSError):
        return ""
    return "" if array is None else _clipped(_nested(array.tolist()))


def model_rows(model: Model) -> list[tuple[str, str]]:
    """Return titles and strings of the model's metadata."""
    proto = model.proto
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in model.opsets.items())
    producer = f"{proto.producer_name} {proto.producer_version}".strip()
    stored = model.graph.initializers.values()
    elements = sum(math.prod(c.dims) for c in stored)
    rows = [
        ("graph", model.graph.name),
        ("IR version", str(model.ir_version)),
        ("opsets", opsets),
        ("producer", producer),
        ("domain", proto.domain),
        ("model version", str(proto.model_version or "")),
        ("weights", f"{len(stored):,} tensors, {elements:,} elements" if stored else ""),
        ("functions", ", ".join(name for _, name, _ in model.functions)),
        ("description", proto.doc_string),
        *model.metadata.items(),
    ]
    return [(title, _clipped(text)) for title, text in rows if text]


def _text(value: Any) -> str:
    from ..model import AttrRef, Graph

    if isinstance(value, Constant):
        name = dtype_name(value.dtype)
        return f"{name} {list(value.dims)} {stored_text(value)}".rstrip()
    if isinstance(value, Graph):
        return _graph(value)
    if isinstance(value, AttrRef):
        return f"attribute {value.name} of the call"
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, tuple):
        shown = [_text(v) for v in value[: 2 * MAX_ELEMENTS]]
        return f"[{', '.join(shown)}{', …' if len(value) > len(shown) else ''}]"
    return _number(value)


def _graph(graph: Graph) -> str:
    return f"graph of {len(graph.nodes):,} node{'' if len(graph.nodes) == 1 else 's'}"


def _nested(value: Any) -> str:
    return f"[{', '.join(map(_nested, value))}]" if isinstance(value, list) else _number(value)


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _clipped(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


#: kinds of tensors and nodes in the tables
COMPUTED, INPUT, STORED = range(3)
OPERATOR, FOLDED, GRAPH_INPUT, GRAPH_OUTPUT, SHAPES = range(5)
_WHOLE = (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL)


def explorer_data(analysis: Analysis, title: str = "") -> dict[str, Any]:
    """Return the tables of one analysis as JSON data, typed in `frontend/src/data.ts`. `title` is as for `render_html`."""
    return _Tables(analysis).data(title)


class _Tables:
    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.lowered = analysis._solved.lowered
        self.expressions = Expressions()
        for name in analysis.symbols:
            self.expressions.number(symbol(name))
        self.names: dict[str, int] = {}
        self.tensors: list[list[Any]] = []
        self.shapes: dict[Shape, int] = {}
        self.shape_rows: list[list[int]] = []
        self.dtypes: dict[str, int] = {}
        self.ops: dict[str, int] = {}
        self.values: dict[int, list[int]] = {}
        self.nodes: list[list[Any]] = []
        self.by_label: dict[str, list[int]] = {}
        self.scopes: list[tuple[int, str]] = []
        self.attributes: dict[int, list[tuple[str, str]]] = {}
        self.as_data: dict[int, list[str]] = {}
        self.data_read: dict[int, list[int]] = {}
        self.contents: dict[int, str] = {}
        self.simple: dict[Dim, Dim] = {}

    def data(self, title: str) -> dict[str, Any]:
        analysis = self.analysis
        self._make_nodes()
        model = analysis.model
        contract = self._contract()
        deployment = deployment_data(analysis, self.expressions)
        symbols = self._symbols()
        requirements, constraints = self._constraints()
        equal = [[self._dim(d) for d in e.members] for e in analysis.equalities]
        return {
            "format": 4,  # version of the types in `frontend/src/data.ts`
            "model": {
                "name": title or (model.path.name if model.path else model.graph.name) or "model",
                "nodes": len(model.graph.nodes),
                "opset": model.opsets.get("", 0),
                "about": model_rows(model),
            },
            "symbols": symbols,
            "rows": self.expressions.rows,
            "texts": self.expressions.texts,
            "forms": self.expressions.forms,
            "shapes": self.shape_rows,
            "dtypes": list(self.dtypes),
            "ops": list(self.ops),
            "tensors": self.tensors,
            "values": self.values,
            "contents": self.contents,
            "attributes": self.attributes,
            "data": self.data_read,
            "scopes": self.scopes,
            "nodes": self.nodes,
            "contract": contract,
            "requirements": requirements,
            "constraints": constraints,
            "equal": equal,
            "findings": [self._finding(f) for f in analysis.findings],
            "deployment": deployment,
        }

    # ------------------------------------------------------------------ nodes and tensors

    def _make_nodes(self) -> None:
        analysis = self.analysis
        calls = list(dict.fromkeys(self.lowered.producers.values()))
        outputs = dict.fromkeys(name for name, _ in analysis.model.graph.outputs)
        fixed = set(
            analysis.model.graph.initializers
        )  # names whose data does not depend on the model's inputs
        fixed -= analysis.inputs.keys()
        rows: list[list[Any]] = []
        scoped: list[Scoped] = []
        makers: dict[str, int] = {}
        of_sizes: set[str] = set()
        for call in calls:
            node, prefix = call
            reads = [self._source(name, prefix) if name else "" for name in node.inputs]
            made = [prefix + name if name else "" for name in node.outputs]
            constant = (
                not node.subgraphs
                and fixed.issuperset(filter(None, reads))
                and (any(reads) or node.is_constant)
            )
            if constant:
                fixed.update(made)
            label = prefix + node.label
            weights = tuple(
                r for r in reads if r and r not in self.lowered.producers and r not in analysis.inputs
            )
            sources = tuple(makers[r] for r in reads if r in makers)
            makers.update(dict.fromkeys(made, len(scoped)))
            sizes = (
                not (constant or node.subgraphs)
                and outputs.keys().isdisjoint(made)
                and (self._are_sizes(made) or self._are_of_sizes(call, reads, made, fixed, of_sizes))
            )
            if sizes:
                of_sizes.update(made)
            scoped.append(Scoped(label, node.op_type, weights, constant or sizes, sources))
            self.by_label.setdefault(label, []).append(len(rows))
            data = [reads[k] for k in analysis._solved.lowered.data_inputs(node, prefix) if k < len(reads)]
            if data := list(filter(None, data)):
                self.as_data[len(rows)] = data
            if texts := attribute_texts(node):
                self.attributes[len(rows)] = texts
            kind = FOLDED if constant else SHAPES if sizes else OPERATOR
            rows.append([label, self._op(node.op_type), 0, reads, made, kind])
            if node.subgraphs:
                rows[-1].append(self._results(node, label))
        scopes = find_scopes(scoped)
        self.scopes = scopes.rows
        for row, scope in zip(rows, scopes.of):
            row[2] = scope
        self._box_sizes(rows)
        rows += self._ends("inputs", list(analysis.inputs), GRAPH_INPUT)
        rows += self._ends("outputs", list(outputs), GRAPH_OUTPUT)
        for i, row in enumerate(rows):
            for column in (3, 4, *range(6, len(row))):
                row[column] = [self._tensor(name) for name in row[column]]
            for t in row[4]:
                if t >= 0:
                    self.tensors[t][3:] = [INPUT if row[5] == GRAPH_INPUT else COMPUTED, i]
        self.nodes = rows
        self.data_read = {i: [self._tensor(name) for name in names] for i, names in self.as_data.items()}

    def _are_sizes(self, made: list[str]) -> bool:
        """Return True if the elements of these tensors are known, such as computed sizes."""
        found = [self.analysis.values.get(name) for name in made if name]
        return bool(found) and all(v is not None and v.elems is not None for v in found)

    def _are_of_sizes(
        self, call: tuple[Node, str], reads: list[str], made: list[str], fixed: set[str], of_sizes: set[str]
    ) -> bool:
        """Return True if these integer or boolean tensors depend only on sizes (positions, masks)."""
        whole = all(self.analysis.dtypes.get(name) in _WHOLE for name in made if name)
        read, rule = set(filter(None, reads)), self.analysis._solved.lowered.rule(*call)
        reads_sizes = rule is not None and rule.sizes
        return whole and (reads_sizes or (not read.isdisjoint(of_sizes) and read <= of_sizes | fixed))

    def _box_sizes(self, rows: list[list[Any]]) -> None:
        """Move arithmetic on sizes into a separate scope, collapsed at first."""
        boxes: dict[int, int] = {}
        for row in rows:
            if row[5] == SHAPES:
                if row[2] not in boxes:
                    boxes[row[2]] = len(self.scopes)
                    self.scopes.append((row[2], "shapes"))
                row[2] = boxes[row[2]]

    def _results(self, node: Node, label: str) -> list[str]:
        """Return outputs of a node's subgraphs, drawn as edges to the node."""
        names = [
            f"{label}/{attribute}/{name}" for attribute, graph in node.subgraphs for name, _ in graph.outputs
        ]
        return [n for n in names if n in self.lowered.producers]

    def _source(self, name: str, prefix: str) -> str:
        """Return the outer tensor of a subgraph's input, or the tensor itself."""
        return self.lowered.outer(self.lowered.full_name(name, prefix))

    def _ends(self, title: str, names: list[str], kind: int) -> list[list[Any]]:
        """Return nodes for the graph's inputs or outputs; many with similar names share a scope."""
        alike = Counter(NUMBER.sub("#", n) for n in names)
        groups: dict[str, int] = {}
        rows: list[list[Any]] = []
        for name in names:
            template = NUMBER.sub("#", name)
            scope = -1
            if alike[template] >= ALIKE or (len(names) > 2 * ALIKE and "#" in template):
                if template not in groups:
                    groups[template] = len(self.scopes)
                    self.scopes.append((-1, template if template.strip("#") and "#" in template else title))
                scope = groups[template]
            ends: list[list[str]] = [[], [name]] if kind == GRAPH_INPUT else [[name], []]
            rows.append([name, self._op(title[:-1]), scope, *ends, kind])
        return rows

    def _op(self, name: str) -> int:
        return self.ops.setdefault(name, len(self.ops))

    def _tensor(self, name: str) -> int:
        if not name:
            return -1
        number = self.names.get(name)
        if number is None:
            number = self.names[name] = len(self.tensors)
            analysis = self.analysis
            known = self.lowered.tensors.get(name)
            plain = known is None or isinstance(known, Tensor)
            dtype = dtype_name(analysis.dtypes.get(name, 0)) if plain else type(known).__name__.lower()
            self.tensors.append([
                name,
                self.dtypes.setdefault(dtype, len(self.dtypes)),
                self._shape(name),
                INPUT if name in analysis.inputs else STORED,
                -1,
            ])  # fmt: skip
            if name in analysis.model.graph.initializers and name not in self.lowered.producers:
                text = stored_text(analysis.model.graph.initializers[name])
                if text:
                    self.contents[number] = text
            value = analysis.values.get(name)
            elems = [e for e in (value.elems or ()) if isinstance(e, Dim)] if value is not None else []
            if elems:
                self.values[number] = [self._dim(e) for e in dict.fromkeys(elems)]
        return number

    def _shape(self, name: str) -> int:
        shape = self.analysis.shapes.get(name)
        if shape is None:
            return -1
        number = self.shapes.get(shape)
        if number is None:
            number = self.shapes[shape] = len(self.shape_rows)
            simple = self.analysis._solved.simple_shapes[name]
            self.shape_rows.append([self._dim(d, form) for d, form in zip(shape, simple, strict=True)])
        return number

    def _dim(self, dim: Dim, form: Dim | None = None) -> int:
        """Return the row number of a dim, displayed in simplified form."""
        if form is None:
            form = self.simple.get(dim, dim)
        else:
            self.simple[dim] = form
        return self.expressions.shown(dim, form)

    # ------------------------------------------------------------------ sizes and conditions

    def _symbols(self) -> list[dict[str, Any]]:
        """Return all symbols in expressions: input symbols first, then generated ones."""
        analysis = self.analysis
        samples = analysis._solved.example or distinct(analysis.symbols)
        replaced = {n: self._dim(d) for n, d in analysis._solved.facts.substitution.items()}
        out: list[dict[str, Any]] = []
        for name in self.expressions.symbols:
            entry: dict[str, Any] = {"name": name, "input": name in analysis.symbols}
            if name in samples:
                entry["sample"] = samples[name]
            if name in replaced:
                entry["is"] = replaced[name]
            if name in self.lowered.reasons:
                entry["why"] = self.lowered.reasons[name]
            out.append(entry)
        return out

    def _contract(self) -> dict[str, Any]:
        contract = self.analysis.contract
        groups = {
            "usual": contract.usual.terms,
            "": contract.terms,
            "assumed": contract.assumed,
            "declared": contract.declared,
            "data": contract.internal,
        }
        return {
            "impossible": contract.impossible,
            "nothing": f"{contract.nothing[0].upper()}{contract.nothing[1:]}.",
            "limits": contract.limits and f"{contract.limits[0].upper()}{contract.limits[1:]}.",
            "scope": heading(contract.usual.scope),
            "terms": [self._term(t, why) for why, terms in groups.items() for t in terms],
        }

    def _term(self, term: Term, why: str) -> dict[str, Any]:
        return {
            "text": term.text,
            "row": self.expressions.number(
                implies(all_of(term.given), term.cond)
            ),  # it is meaningless outside its scope
            "nodes": self._numbers(term.nodes),
            "kind": why,
        }

    def _constraints(self) -> tuple[list[list[Any]], dict[int, list[list[str]]]]:
        """Return distinct requirements with their nodes, and the requirements of each node."""
        needed: dict[Cond, dict[int, None]] = {}
        stated: dict[int, dict[tuple[str, str, str], None]] = {}
        for c in self.analysis._solved.stated:
            for n in self.by_label.get(c.origin.node, ()):
                stated.setdefault(n, {})[c.role, str(c), c.origin.rule] = None
                if c.role == "requirement":
                    needed.setdefault(need(c), {})[n] = None
        requirements = [[self.expressions.shown(c), list(ns)] for c, ns in needed.items() if not c.is_true]
        return requirements, {n: [list(s) for s in rows] for n, rows in stated.items()}

    def _finding(self, finding: Any) -> dict[str, Any]:
        return {
            "code": finding.code,
            "severity": finding.severity,
            "title": finding.title,
            "node": finding.node,
            "op": finding.op_type,
            "nodes": self._numbers(
                dict.fromkeys([*([finding.node] if finding.node else []), *finding.nodes])
            ),
            "operands": [list(o) for o in finding.operands],
            "steps": [[s.text, self._numbers([s.node])] for s in finding.steps],
            "notes": list(finding.notes),
            "help": finding.help,
        }

    def _numbers(self, labels: Iterable[str] | Mapping[str, None]) -> list[int]:
        return [n for label in labels for n in self.by_label.get(label, ())]
