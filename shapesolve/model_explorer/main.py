"""An extension for Google's Model Explorer: symbolic shapes on edges, findings on nodes.

pip install 'shapesolve[model-explorer]'
model-explorer model.onnx --extensions=shapesolve.model_explorer
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from model_explorer import Adapter, AdapterMetadata, ModelExplorerGraphs
from model_explorer import graph_builder as gb

from ..analysis import analyze
from ..report.explorer_scopes import Scoped, Scopes, find_scopes
from ..report.limits import MAX_LINES, MAX_TEXT
from ..report.names import dtype_name, shape_text
from ..report.text import counted

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..explain.finding import Finding
    from ..model import Graph, Node

_COLOURS = {"error": "#f4b6b6", "warning": "#fbe3a6", "info": "#cfe4f7"}
_RANKS = {"error": 0, "warning": 1, "info": 2}


class ShapesolveAdapter(Adapter):  # type: ignore[misc]
    """Adapter that reads an ONNX file and returns graphs with shapes and findings."""

    metadata = AdapterMetadata(
        id="shapesolve",
        name="shapesolve",
        description="ONNX with proved symbolic shapes",
        source_repo="",
        fileExts=["onnx"],
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> ModelExplorerGraphs:
        """Graphs for a model file: the main graph, and one per subgraph."""
        return {"graphs": graphs_of(analyze(model_path))}


def graphs_of(analysis: Analysis) -> list[gb.Graph]:
    """Graphs of Model Explorer for an analysis."""
    writer = _Writer(analysis)
    writer.write(analysis.model.graph, "", analysis.model.graph.name or "main")
    writer.graphs[0].groupNodeAttributes = {"": _about(analysis)}
    return writer.graphs


def _about(analysis: Analysis) -> dict[str, str]:
    """Side panel text for the whole model: contract and number of findings."""
    if analysis.conflicts:
        contract = {"contract": "no input sizes run"}
    else:
        terms = [t.text for t in analysis.contract][:MAX_LINES]
        contract = {f"contract {i}": text for i, text in enumerate(terms, 1)} or {"contract": "none"}
    counts = {s: sum(f.severity == s for f in analysis.diagnostics) for s in _RANKS}
    return {**contract, "findings": counted(counts) or "none"}


class _Writer:
    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.graphs: list[gb.Graph] = []
        self.findings: dict[str, list[Finding]] = {}
        for finding in analysis.diagnostics:
            for label in dict.fromkeys((finding.node, *finding.nodes)):
                self.findings.setdefault(label, []).append(finding)

    def write(self, graph: Graph, prefix: str, title: str) -> str:
        """Adds a graph, and then its subgraphs. Returns its id."""
        out = gb.Graph(id=title)
        self.graphs.append(out)
        sources: dict[str, tuple[str, str]] = {}
        inputs = [name for name, _ in graph.inputs if name not in graph.initializers]
        folder = "inputs" if len(inputs) > MAX_LINES else ""
        for name in inputs:
            sources[name] = self._end(out, f"input {name}", folder, [prefix + name], []), "0"
        for node, namespace in zip(graph.nodes, _namespaces(graph)):
            ident = f"#{node.index}"
            out.nodes.append(self._node(node, ident, namespace, prefix, sources))
            sources.update({name: (ident, str(i)) for i, name in enumerate(node.outputs) if name})
        folder = "outputs" if len(graph.outputs) > MAX_LINES else ""
        for name, _ in graph.outputs:
            self._end(out, f"output {name}", folder, [], [sources[name]] if name in sources else [])
        return title

    def _end(
        self, out: gb.Graph, ident: str, namespace: str, made: list[str], read: Iterable[tuple[str, str]]
    ) -> str:
        edges = [gb.IncomingEdge(source, port) for source, port in read]
        node = gb.GraphNode(ident, ident.partition(" ")[2], namespace, incomingEdges=edges)
        node.outputsMetadata = [self._output(str(i), name) for i, name in enumerate(made)]
        out.nodes.append(node)
        return ident

    def _node(
        self, node: Node, ident: str, namespace: str, prefix: str, sources: dict[str, tuple[str, str]]
    ) -> gb.GraphNode:
        label = f"{prefix}{node.label}"
        found = sorted(self.findings.get(label, ()), key=lambda f: _RANKS[f.severity])
        attrs = [gb.KeyValue("name", node.label)]
        for i, name in enumerate(node.inputs):
            if name and name not in sources:  # a weight, or a tensor of the graph around
                attrs.append(gb.KeyValue(f"input {i}", f"{name} {self._type(prefix, name)}"))
        for key, value in node.attributes.items():
            if isinstance(value, (int, float, str, tuple)):
                attrs.append(gb.KeyValue(key, str(value)[:MAX_TEXT]))
        attrs += [gb.KeyValue(f.code, f"{f.title}. {f.help}" if f.help else f.title) for f in found]
        needs = dict.fromkeys(
            str(c) for c in self.analysis._solved.stated.for_node(label) if c.role == "requirement"
        )
        attrs += [gb.KeyValue("needs", text) for text in needs]
        edges = [gb.IncomingEdge(*sources[n], str(i)) for i, n in enumerate(node.inputs) if n in sources]
        return gb.GraphNode(
            id=ident,
            label=node.op_type,
            namespace=namespace,
            subgraphIds=[self.write(g, f"{label}/{name}/", f"{label}/{name}") for name, g in node.subgraphs],
            attrs=attrs,
            incomingEdges=edges,
            outputsMetadata=[self._output(str(i), prefix + n) for i, n in enumerate(node.outputs) if n],
            style=gb.GraphNodeStyle(backgroundColor=_COLOURS[found[0].severity]) if found else None,
        )

    def _type(self, prefix: str, name: str) -> str:
        full = self.analysis._solved.lowered.full_name(name, prefix)
        return f"{dtype_name(self.analysis.dtypes.get(full, 0))} {shape_text(self.analysis.shapes.get(full))}"

    def _output(self, port: str, full: str) -> gb.MetadataItem:
        shape = shape_text(self.analysis.shapes.get(full))
        text = f"{dtype_name(self.analysis.dtypes.get(full, 0))} {shape}"
        return gb.MetadataItem(port, [gb.KeyValue("__tensor_tag", full), gb.KeyValue("tensor_shape", text)])


def _namespaces(graph: Graph) -> list[str]:
    """The namespace of each node of a graph, in node order: ``layers.0/attn``, or empty at the top."""
    inputs = {name for name, _ in graph.inputs if name not in graph.initializers}
    weights = graph.initializers.keys() - inputs
    fixed = set(weights)  # names whose data no input decides
    makers: dict[str, int] = {}
    scoped: list[Scoped] = []
    for i, node in enumerate(graph.nodes):
        reads = [name for name in node.inputs if name]
        made_of_constants = fixed.issuperset(reads) and (bool(reads) or node.is_constant)
        constant = made_of_constants and not node.subgraphs
        if constant:
            fixed.update(node.outputs)
        stored = tuple(name for name in reads if name in weights)
        sources = tuple(makers[name] for name in reads if name in makers)
        makers.update(dict.fromkeys(node.outputs, i))
        scoped.append(Scoped(node.label, node.op_type, stored, constant, sources))
    found = find_scopes(scoped)
    paths = _paths(found)
    return [paths[scope] if scope >= 0 else "" for scope in found.of]


def _paths(scopes: Scopes) -> list[str]:
    """The path of each scope; siblings of equal name are numbered."""
    paths: list[str] = []
    taken: set[str] = set()
    for parent, name in scopes.rows:
        path = start = f"{paths[parent]}/{name}" if parent >= 0 else name
        number = 1
        while path in taken:
            number += 1
            path = f"{start} {number}"
        taken.add(path)
        paths.append(path)
    return paths
