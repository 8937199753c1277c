"""Runs the exported graph and the module, and blames a refused size on one of them or the tracer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import onnx
import torch
from torch.utils import _pytree as pytree

from ..expr import Cond
from ..expr.sizes import sizes_text
from .declared import Declaration
from .exporting import Written, is_check, own_errors, own_errors_raised
from .limits import COMPARED, MAX_BYTES, MAX_PROBES, MAX_SHOWN, MAX_TRIED
from .outcome import Restriction, holds_at
from .places import SourceFinding, Verdict
from .programs import input_names
from .running import Ran, Runs, SizeItems, Sizes, probes, same, seeded, violating

# ---------------------------------------------------------------------- the exported graph


class Graph:
    """The exported graph: torch.export's program, and the file.

    A way to compute it that does not give at the example what the module gives says nothing of other sizes.
    """

    def __init__(self, runs: Runs, program: Any, written: Written) -> None:
        self.runs, self.source = runs, _Interpreted(program)
        self.file: _InRuntime | None = None
        if written.proto is not None:
            self.file = _InRuntime(written.proto, input_names(written.program))
        self._trusted: dict[Any, bool] = {}

    def agrees(self, sizes: Sizes) -> bool | None:
        """True if the file gives the module's outputs at these sizes; the program, where no file runs. None if unknown."""
        ran = self.runs.at(sizes)
        return next((self._same(way, ran) for way in reversed(self._ways()) if self._is_trusted(way)), None)

    def _ways(self) -> list[Any]:
        return [self.source] if self.file is None else [self.source, self.file]

    def _is_trusted(self, way: Any) -> bool:
        if way not in self._trusted:
            self._trusted[way] = self._same(way, self.runs.at({})) is True
        return self._trusted[way]

    def _same(self, way: Any, ran: Ran) -> bool | None:
        """True if it gives the outputs of this run of the module. None if the run has none."""
        if ran.state != "runs" or ran.outputs is None:
            return None
        found = way.outputs(self.runs.in_order(ran.leaves))
        if isinstance(found, Exception):
            return False
        wanted = [o for o in ran.outputs if isinstance(o, torch.Tensor) or not way.tensors_only]
        return len(found) == len(wanted) and all(map(same, wanted, found))


class _Interpreted:
    """An `ExportedProgram` without its guards."""

    tensors_only = False

    def __init__(self, program: Any) -> None:
        self.program = program

    def outputs(self, leaves: Sequence[Any]) -> list[Any] | Exception:
        """The outputs for the inputs of a call, or the error of an operator that does not run."""
        interpreter = _Interpreter(self.program.graph_module)
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


class _Interpreter(torch.fx.Interpreter):  # type: ignore[misc]  # PyTorch is not installed where types are checked
    extra_traceback = False

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
            if find_spec("onnxruntime") is None or self.proto.ByteSize() > MAX_BYTES:
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


# ---------------------------------------------------------------------- a condition


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A refutation that was tried.

    Attributes:
        verdict: whose fault it is; unknown where the module could not be run there.
        sizes: the sizes at which it shows, all others as in the example.
        failed: the run that failed, with its line, when the module does.
        runs: ruled out by the condition, and the module runs there all the same.
    """

    verdict: Verdict
    sizes: SizeItems = ()
    failed: Ran | None = None
    runs: tuple[SizeItems, ...] = ()


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
    tried: dict[SizeItems, Ran] = {}
    for sizes in itertools.chain(given, own):
        whole = runs.complete(sizes)
        if not holds_at(cond, whole) and all(holds_at(c, whole) for c in others):
            ran = runs.at(sizes)
            tried |= {tuple(sizes.items()): ran} if ran.state != "unknown" else {}
        if len(tried) == MAX_TRIED:
            break
    if not tried:  # conditions that always break together are tried together
        return confirmed(restriction, declaration, runs, graph, ()) if others else UNTRIED
    ran_there = tuple(s for s, r in tried.items() if r.state == "runs")
    failing = [s for s, r in tried.items() if r.state == "fails"]
    if failing:
        places = [tried[s].origin.place for s in failing]  # another line may fail at the very ends of a range
        first = max(failing, key=lambda s: places.count(tried[s].origin.place))
        return Confirmed("module", first, tried[first], ran_there)
    if not restriction.guarded:  # what the analysis proves of the graph holds
        return Confirmed("graph", ran_there[0], None, ran_there)
    agrees = {s: graph.agrees(dict(s)) if graph is not None else None for s in ran_there}
    verdicts: dict[Verdict, bool] = {"graph": False, "tracer": True}
    for verdict, state in verdicts.items():
        if found := next((s for s, same in agrees.items() if same is state), None):
            return Confirmed(verdict, found, None, ran_there)
    return Confirmed("unknown", ran_there[0], None, ran_there)


# ---------------------------------------------------------------------- the declared sizes


def probed(
    declaration: Declaration, runs: Runs, graph: Graph | None, known: Callable[[Sizes], bool]
) -> list[SourceFinding]:
    """Findings for declared sizes at which the module fails or the graph differs.

    Sizes that are `known` to are left out.
    """
    tried = itertools.islice(probes(declaration, runs.example), MAX_PROBES)
    found = [runs.at(sizes) for sizes in tried if not known(runs.complete(sizes))]
    failed, ran = ([r for r in found if r.state == state] for state in ("fails", "runs"))
    lines = dict.fromkeys(r.origin.place for r in failed)
    findings = [_failing(runs, [r for r in failed if r.origin.place == line], ran) for line in lines]
    if not findings and graph is not None:
        differing = (r for r in ran[:COMPARED] if graph.agrees(dict(r.sizes)) is False)
        findings += [_differing(runs, r) for r in itertools.islice(differing, 1)]
    return findings


def _failing(runs: Runs, failed: Sequence[Ran], ran: Sequence[Ran]) -> SourceFinding:
    first, *also = sorted(failed, key=lambda r: len(runs.changed(r)))
    sizes = runs.changed(first)
    names = {n for n, _ in sizes}
    like = [c for c in map(runs.changed, ran) if {n for n, _ in c} <= names][:MAX_SHOWN]
    notes = [f"the module fails at {sizes_text(sizes)}: {first.words.partition(chr(10))[0]}"]
    notes += [f"it fails at {sizes_text(runs.changed(r))} too" for r in also[: MAX_SHOWN - 1]]
    notes += [f"it runs at {'; '.join(map(sizes_text, like))}"] if like else []
    finding = _found(runs, sizes, f"the module fails at {sizes_text(sizes)}, which is declared", notes)
    return replace(finding, origin=first.origin, verdict="module")


def _differing(runs: Runs, ran: Ran) -> SourceFinding:
    sizes = runs.changed(ran)
    title = f"the exported graph does not compute what the module computes at {sizes_text(sizes)}"
    why = "a size or a value became a number while the module was exported"
    return replace(
        _found(runs, sizes, title, [f"tried: both were run there on the same data; {why}"]), verdict="graph"
    )


def _found(runs: Runs, sizes: SizeItems, title: str, notes: Sequence[str]) -> SourceFinding:
    declared = [runs.declaration.quote(n) for n, _ in sizes]
    notes = [*(f"declared: {d}" for d in declared), *notes]
    text = "; ".join(declared)
    return SourceFinding("SS609", title, notes=tuple(notes), declared=text, counterexample=sizes)
