"""Runs the exported graph and the module, and blames a refused size on one of them or the tracer."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import onnx
import torch
from torch.utils import _pytree as pytree

from ..expr import Cond
from ..expr.sizes import sizes_text
from .declared import Declaration
from .exporting import Written, is_check, own_errors, own_errors_raised
from .guards import input_names
from .outcome import Restriction, holds_at
from .places import NOWHERE, Origin, Place, SourceFinding, Verdict, read_trace
from .running import Ran, Runs, Sizes, probes, same, seeded, violating

#: sizes at which a condition is tried, declared sizes at which the module is, and at which the graph is too
_TRIES, _MAX_PROBES, _COMPARED = 10, 24, 4
_MAX_SHOWN = 4
#: larger files are not loaded, bytes
_MAX_BYTES = 1 << 26
_NODE = re.compile(r"Name:'([^']+)'")

# ---------------------------------------------------------------------- the exported graph


class Graph:
    """The exported graph: torch.export's program, its decomposition, and the file.

    A step that does not give at the example what the module gives says nothing of other sizes.
    """

    def __init__(self, runs: Runs, program: Any, written: Written) -> None:
        self.runs = runs
        self.source, self.decomposed, self.file = _Interpreted(program), None, None
        ways: list[_Interpreted | _InRuntime] = [self.source]
        if written.proto is not None:
            self.decomposed = _Interpreted(written.program)
            self.file = _InRuntime(written.proto, input_names(written.program))
            ways += [self.decomposed, self.file]
        self.steps = [_Step(runs, way) for way in ways]

    def agrees(self, sizes: Sizes) -> bool | None:
        """True if the file gives the module's outputs at these sizes; the program, where no file runs. None if unknown."""
        ran = self.runs.at(sizes)
        last = next((step for step in reversed(self.steps) if step.trusted), None)
        return last.agrees(ran) if last is not None else None

    def difference(self, sizes: Sizes) -> tuple[str, str, Origin]:
        """The first step that differs from the module, in words, with the node or the line where it is known."""
        ran = self.runs.at(sizes)
        leaves = self.runs.in_order(ran.leaves)
        wrong = next((s.way for s in self.steps if s.trusted and s.agrees(ran) is False), None)
        program = "torch.export's program follows the module"
        if self.file is not None and wrong is self.file:
            node = self.file.failing_node(leaves)
            what = f"{node} fails in onnxruntime" if node else "onnxruntime computes something else"
            return f"{program}; in the file that is written of it, {what}", node, NOWHERE
        if self.decomposed is not None and wrong is self.decomposed:
            right, other = self.source.lines(leaves), self.decomposed.lines(leaves)
            differing = (Origin(t) for t, v in right.items() if t in other and not same(v, other[t]))
            line = next(differing, NOWHERE)
            if line:
                why = "what the exporter makes of this line holds for the example's sizes"
                return f"{program}; {why}", "", line
        why = "a size or a value became a number while the module was traced"
        return f"at the example's sizes they agree: {why}", "", NOWHERE


class _Step:
    """One way to compute the outputs of a run."""

    def __init__(self, runs: Runs, way: _Interpreted | _InRuntime) -> None:
        self.runs, self.way = runs, way
        self._trusted: bool | None = None

    @property
    def trusted(self) -> bool:
        """True if it gives what the module gives on the example."""
        if self._trusted is None:
            self._trusted = self.agrees(self.runs.at({})) is True
        return self._trusted

    def agrees(self, ran: Ran) -> bool | None:
        """True if it gives the outputs of this run of the module. None if the run has none."""
        if ran.state != "runs" or ran.outputs is None:
            return None
        found = self.way.outputs(self.runs.in_order(ran.leaves))
        if isinstance(found, Exception):
            return False
        wanted = [o for o in ran.outputs if isinstance(o, torch.Tensor) or not self.way.tensors_only]
        return len(found) == len(wanted) and all(map(same, wanted, found))


class _Interpreted:
    """An `ExportedProgram` without its guards."""

    tensors_only = False

    def __init__(self, program: Any) -> None:
        self.program = program

    def outputs(
        self, leaves: Sequence[Any], interpreter: _Interpreter | None = None
    ) -> list[Any] | Exception:
        """The outputs for the inputs of a call, or the error of an operator that does not run."""
        interpreter = interpreter or _Interpreter(self.program.graph_module)
        given = iter(leaves)
        signature, state = self.program.graph_signature, self.program.state_dict
        values: list[Any] = []
        for spec in signature.input_specs:
            if spec.kind.name == "USER_INPUT":
                value = next(given)
            else:
                value = state.get(spec.target, self.program.constants.get(spec.target))
            keep = spec.kind.name == "PARAMETER" or not isinstance(value, torch.Tensor)
            values.append(value if keep else value.clone())
        with own_errors_raised():
            try:
                with seeded():
                    out = pytree.tree_leaves(interpreter.run(*values))
            except Exception as error:
                return error
        kept = [o for o, s in zip(out, signature.output_specs) if s.kind.name == "USER_OUTPUT"]
        return kept if len(out) == len(signature.output_specs) else out

    def lines(self, leaves: Sequence[Any]) -> dict[tuple[Place, ...], Any]:
        """Per line of the module the last tensor that is made there, as far as the graph runs."""
        interpreter = _Interpreter(self.program.graph_module)
        self.outputs(leaves, interpreter)
        return interpreter.made


class _Interpreter(torch.fx.Interpreter):  # type: ignore[misc]  # PyTorch is not installed where types are checked
    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self.made: dict[tuple[Place, ...], Any] = {}

    def run_node(self, n: Any) -> Any:
        """Run a node, and keep what it makes for its line."""
        out = super().run_node(n)
        with own_errors():
            trace = read_trace(n.meta.get("stack_trace", "") or "")
            if trace and isinstance(out, torch.Tensor):
                self.made[trace] = out
        return out

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an operator, unless all it does is to check."""
        with own_errors():
            check = is_check(target)
        return None if check else super().call_function(target, args, kwargs)


class _InRuntime:
    """A written model in onnxruntime. `names` are the graph inputs that belong to the inputs of a call."""

    tensors_only = True

    def __init__(self, proto: onnx.ModelProto, names: Sequence[str]) -> None:
        self.proto, self.names = proto, names
        self._session: Any = None

    def outputs(self, leaves: Sequence[Any]) -> list[torch.Tensor] | Exception:
        """The outputs for the inputs of a call, or the error of onnxruntime, also if it is not there."""
        if self._session is None:
            if find_spec("onnxruntime") is None or self.proto.ByteSize() > _MAX_BYTES:
                return NotImplementedError()
            self._session = self._loaded()
        if isinstance(self._session, Exception):
            return self._session
        by_name = dict(zip(self.names, leaves))
        given = {i.name: by_name[i.name].contiguous() for i in self._session.get_inputs()}
        try:
            arrays = {name: value.numpy() for name, value in given.items()}
            return [torch.as_tensor(found) for found in self._session.run(None, arrays)]
        except Exception as error:  # it does not run, or numpy lacks an element type
            return error

    def _loaded(self) -> Any:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        model = self.proto.SerializeToString()
        try:
            return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime does not take the file
            return error

    def failing_node(self, leaves: Sequence[Any]) -> str:
        """Name of the node at which a run with onnxruntime fails. Empty if it succeeds or the error names none."""
        found = self.outputs(leaves)
        named = _NODE.search(str(found)) if isinstance(found, Exception) else None
        return named[1] if named else ""


# ---------------------------------------------------------------------- a condition


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A refutation that was tried.

    Attributes:
        verdict: whose fault it is; unknown where the module could not be run there.
        sizes: the sizes at which it shows, all others as in the example.
        failed: the run that failed, with its line, when the module does.
        runs: ruled out by the condition, and the module runs there all the same.
        follows: the ones among them where the exported graph gives what the module gives.
    """

    verdict: Verdict
    sizes: tuple[tuple[str, int], ...] = ()
    failed: Ran | None = None
    runs: tuple[tuple[tuple[str, int], ...], ...] = ()
    follows: tuple[tuple[tuple[str, int], ...], ...] = ()


UNTRIED = Confirmed("unknown")


def confirmed(
    restriction: Restriction,
    declaration: Declaration,
    runs: Runs,
    graph: Graph | None,
    others: Sequence[Cond],
) -> Confirmed:
    """Tries declared sizes that a restriction rules out, and none of the `others` if there are any."""
    cond, example = restriction.term.cond, runs.example
    given = [dict(restriction.counterexample)] if restriction.counterexample else []
    own = violating(declaration, example, lambda sizes: holds_at(cond, sizes), restriction.roots)
    tried: list[tuple[dict[str, int], Ran]] = []
    for sizes in itertools.chain(given, own):
        whole = runs.complete(sizes)
        fits = not holds_at(cond, whole) and all(holds_at(c, whole) for c in others)
        if fits and all(sizes != s for s, _ in tried) and (ran := runs.at(sizes)).state != "unknown":
            tried.append((sizes, ran))
        if len(tried) == _TRIES:
            break
    if not tried:  # conditions that always break together are tried together
        return confirmed(restriction, declaration, runs, graph, ()) if others else UNTRIED
    ran_there = tuple(tuple(s.items()) for s, r in tried if r.state == "runs")
    failing = [(s, r) for s, r in tried if r.state == "fails"]
    places = [r.origin.place for _, r in failing]  # another line may fail at the very ends of a range
    failed = max(failing, key=lambda pair: places.count(pair[1].origin.place), default=None)
    if failed is not None:
        return Confirmed("module", tuple(failed[0].items()), failed[1], ran_there)
    if not restriction.guarded:  # what the analysis proves of the graph holds
        return Confirmed("graph", ran_there[0], None, ran_there)
    agrees = {s: graph.agrees(dict(s)) if graph is not None else None for s in ran_there}
    right = tuple(s for s, same in agrees.items() if same)
    wrong = next((s for s, same in agrees.items() if same is False), None)
    if wrong is not None:
        return Confirmed("graph", wrong, None, ran_there, right)
    return Confirmed("tracer" if right else "unknown", (*right, *ran_there)[0], None, ran_there, right)


# ---------------------------------------------------------------------- the declared sizes


def probed(
    declaration: Declaration, runs: Runs, graph: Graph | None, known: Callable[[Sizes], bool]
) -> list[SourceFinding]:
    """Findings for declared sizes at which the module fails or the graph differs.

    Sizes that are `known` to are left out.
    """
    tried = itertools.islice(probes(declaration, runs.example), _MAX_PROBES)
    found = [runs.at(sizes) for sizes in tried if not known(runs.complete(sizes))]
    failed, ran = ([r for r in found if r.state == state] for state in ("fails", "runs"))
    lines = dict.fromkeys(r.origin.place for r in failed)
    findings = [_failing(runs, [r for r in failed if r.origin.place == line], ran) for line in lines]
    if not findings and graph is not None:
        differing = (r for r in ran[:_COMPARED] if graph.agrees(dict(r.sizes)) is False)
        findings += [_differing(runs, r, graph) for r in itertools.islice(differing, 1)]
    return findings


def _failing(runs: Runs, failed: Sequence[Ran], ran: Sequence[Ran]) -> SourceFinding:
    first = min(failed, key=lambda r: len(runs.changed(r)))
    sizes = runs.changed(first)
    names = {n for n, _ in sizes}
    like = [r for r in ran if {n for n, _ in runs.changed(r)} <= names][:_MAX_SHOWN]
    also = [r for r in failed if r is not first][: _MAX_SHOWN - 1]
    notes = [f"the module fails at {sizes_text(sizes)}: {first.words.partition(chr(10))[0]}"]
    notes += [f"it fails at {sizes_text(runs.changed(r))} too" for r in also]
    notes += [f"it runs at {'; '.join(sizes_text(runs.changed(r)) for r in like)}"] if like else []
    title = f"the module fails at {sizes_text(sizes)}, which is declared"
    return _found(runs, title, sizes, notes, "module", first.origin)


def _differing(runs: Runs, ran: Ran, graph: Graph) -> SourceFinding:
    sizes = runs.changed(ran)
    why, node, line = graph.difference(dict(ran.sizes))
    what = "file" if why.startswith("torch") and not line else "graph"
    title = f"the exported {what} does not compute what the module computes at {sizes_text(sizes)}"
    notes = [f"tried: both were run there on the same data; {why}"]
    return _found(runs, title, sizes, notes, "graph", line, node)


def _found(
    runs: Runs,
    title: str,
    sizes: tuple[tuple[str, int], ...],
    notes: Sequence[str],
    verdict: Verdict,
    origin: Origin,
    node: str = "",
) -> SourceFinding:
    declared = [runs.declaration.quote(n) for n, _ in sizes]
    return SourceFinding(
        "SS609",
        title,
        node,
        notes=(*(f"declared: {d}" for d in declared), *notes),
        origin=origin,
        declared="; ".join(declared),
        counterexample=sizes,
        verdict=verdict,
    )
