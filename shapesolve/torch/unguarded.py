"""Outputs of an exported graph, and of its written file, at other sizes than the example's."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import onnx
import torch
from torch.utils import _pytree as pytree

from .exporting import quiet
from .exports import is_check
from .places import NOWHERE, Origin, Place, read_trace
from .running import Ran, Runs, same, steady


class Unguarded:
    """Runs an `ExportedProgram`'s graph without its guards and holds what comes out against the module.

    `source` is the graph that this one was made of, where it is a decomposed one; `file` is what was written of it.
    At the sizes of the example it has to give what the module gives, or nothing is said of other sizes.
    """

    def __init__(
        self,
        program: Any,
        runs: Runs,
        source: Unguarded | None = None,
        file: InRuntime | None = None,
    ) -> None:
        self.program, self.runs, self.source, self.file = program, runs, source, file
        self._trusted: bool | None = None

    def agrees(self, sizes: Mapping[str, int]) -> bool | None:
        """True if the graph and its file give the module's outputs at these sizes. None if that is unknown."""
        ran = self.runs.at(sizes)
        if ran.state != "runs" or ran.outputs is None:
            return None
        if self._trusted is None:
            self._trusted = self._agrees(self.runs.at({})) is True
        said = self._agrees(ran) if self._trusted else None
        return said and not (self.file is not None and self.file.agrees(ran) is False)

    def _agrees(self, ran: Ran) -> bool | None:
        if ran.outputs is None:
            return None
        try:
            found = self._outputs(ran)
        except Exception:  # the graph does not run at this size
            return False
        return len(found) == len(ran.outputs) and all(same(a, b) for a, b in zip(found, ran.outputs))

    def in_file(self, sizes: Mapping[str, int]) -> bool:
        """True if the graph follows the module at these sizes and the written file does not."""
        return self.agrees(sizes) is False and self._agrees(self.runs.at(sizes)) is True

    def strays(self, sizes: Mapping[str, int]) -> Origin:
        """The first line whose result differs from the source graph, if that follows the module."""
        ran = self.runs.at(sizes)
        if self.in_file(sizes) or self.source is None or self.source.agrees(sizes) is not True:
            return NOWHERE
        right, wrong = self.source._lines(ran), self._lines(ran)
        return next((Origin(t) for t, v in right.items() if t in wrong and not same(v, wrong[t])), NOWHERE)

    def _lines(self, ran: Ran) -> dict[tuple[Place, ...], Any]:
        """Per line of the module the last tensor that is made there, as far as the graph runs."""
        interpreter = _Interpreter(self.program.graph_module)
        with contextlib.suppress(Exception):  # the graph does not run at this size
            self._outputs(ran, interpreter)
        return interpreter.made

    def _outputs(self, ran: Ran, interpreter: _Interpreter | None = None) -> list[Any]:
        interpreter = interpreter or _Interpreter(self.program.graph_module)
        given = iter(self.runs.in_order(ran.leaves))
        signature, state = self.program.graph_signature, self.program.state_dict
        values: list[Any] = []
        for spec in signature.input_specs:
            if spec.kind.name == "USER_INPUT":
                value = next(given)
            else:
                value = state.get(spec.target, self.program.constants.get(spec.target))
            keep = spec.kind.name == "PARAMETER" or not isinstance(value, torch.Tensor)
            values.append(value if keep else value.clone())
        with quiet(), steady(), torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            out = pytree.tree_leaves(interpreter.run(*values))
        kept = [o for o, s in zip(out, signature.output_specs) if s.kind.name == "USER_OUTPUT"]
        return kept if len(out) == len(signature.output_specs) else out


class _Interpreter(torch.fx.Interpreter):  # type: ignore[misc]  # as above
    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self.made: dict[tuple[Place, ...], Any] = {}

    def run_node(self, n: Any) -> Any:
        """Run a node, and keep what it makes for its line."""
        out = super().run_node(n)
        trace = read_trace(n.meta.get("stack_trace", "") or "")
        if trace and isinstance(out, torch.Tensor):
            self.made[trace] = out
        return out

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an operator, unless all it does is to check."""
        if is_check(target):
            return None
        return super().call_function(target, args, kwargs)


#: larger files are not loaded
_MAX_BYTES = 1 << 26
_NODE = re.compile(r"Name:'([^']+)'")


class InRuntime:
    """Runs the written model of a module. `names` are the graph inputs that belong to the declaration's inputs.

    At the sizes of the example it has to give what the module gives, or nothing is said of other sizes.
    """

    def __init__(self, proto: onnx.ModelProto, names: list[str], runs: Runs) -> None:
        self.proto, self.names, self.runs = proto, names, runs
        self._session: Any = None
        self._trusted: bool | None = None

    def agrees(self, ran: Ran) -> bool | None:
        """True if the file gives the outputs of this run of the module. None if that is unknown."""
        if self._trusted is None:
            self._trusted = self._load() and self._agrees(self.runs.at({})) is True
        return self._agrees(ran) if self._trusted else None

    def failing_node(self, ran: Ran) -> str:
        """The node at which onnxruntime gives up here, if it does."""
        try:
            self._outputs(ran)
        except Exception as error:
            found = _NODE.search(str(error))
            return found[1] if found else ""
        return ""

    def _load(self) -> bool:
        if find_spec("onnxruntime") is None or self.proto.ByteSize() > _MAX_BYTES:
            return False
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        try:
            self._session = ort.InferenceSession(
                self.proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception:  # an operator that this onnxruntime has not
            return False
        return True

    def _agrees(self, ran: Ran) -> bool | None:
        if ran.state != "runs" or ran.outputs is None:
            return None
        try:
            found = self._outputs(ran)
        except Exception:  # the file does not run at this size
            return False
        wanted = [o for o in ran.outputs if isinstance(o, torch.Tensor)]
        return len(found) == len(wanted) and all(map(same, wanted, found))

    def _outputs(self, ran: Ran) -> list[torch.Tensor]:
        leaves = dict(zip(self.names, self.runs.in_order(ran.leaves)))
        taken = [i.name for i in self._session.get_inputs()]
        given = {n: leaves[n].contiguous().numpy() for n in taken}
        return [torch.as_tensor(found) for found in self._session.run(None, given)]
