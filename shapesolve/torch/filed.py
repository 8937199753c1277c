"""What the written file computes in onnxruntime, where that is installed: exporters rewrite graphs for the example's sizes."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import onnx
import torch

from .running import Ran, Runs, same

#: larger files are not loaded
_MAX_BYTES = 1 << 26
_NODE = re.compile(r"Name:'([^']+)'")


class InRuntime:
    """Runs a model that was written of a module; `names` are the graph inputs that belong to the declaration's inputs.

    At the sizes of the example it has to give what the module gives, or nothing is said of other sizes.
    """

    def __init__(self, proto: onnx.ModelProto, names: list[str], runs: Runs) -> None:
        self.proto, self.names, self.runs = proto, names, runs
        self._session: Any = None
        self._trusted: bool | None = None

    def agrees(self, ran: Ran) -> bool | None:
        """Does the file give what this run of the module gave? None when it cannot be said."""
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
