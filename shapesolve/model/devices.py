"""Device propagation: devices of all tensors, from those that nodes state (IR version 11).

https://github.com/onnx/onnx/blob/main/docs/proposals/ONNXMultiDeviceProposal.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .node import Node
from .read import read_model


def devices(model: Any, configuration: str = "") -> dict[str, tuple[int, ...]]:
    """Return the devices of each tensor of the main graph, as indices into a device configuration of the model.

    Sharding specs of a node give the devices of its tensors. Other outputs of the node are on the devices on which
    all its specs agree,
    or, without specs, on which all its inputs agree. Tensors without a known device are left out.

    Args:
        model: A path or a `ModelProto`.
        configuration: Name of the device configuration. Default: the model's first.

    Raises:
        ModelError: If the model cannot be read.
        ValueError: If the model has no configuration of that name.
    """
    read = read_model(model)
    names = [c.name for c in read.proto.configuration]
    if configuration and configuration not in names:
        hint = f"expected one of: {', '.join(names)}" if names else "the model has none"
        raise ValueError(f"unknown device configuration {configuration!r}; {hint}")
    wanted = configuration or next(iter(names), "")
    found: dict[str, tuple[int, ...]] = {}
    for node in read.graph.nodes if wanted else ():
        stated = dict(_stated(node, wanted))
        known = [*stated.values()] or [found[name] for name in node.inputs if name in found]
        found.update(stated)
        if known and all(one == known[0] for one in known):
            found.update((name, known[0]) for name in node.outputs if name and name not in stated)
    return found


def _stated(node: Node, configuration: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Tensors of the sharding specs of a node, with their devices. A group's key is its members."""
    for stated in node.proto.device_configurations:
        if stated.configuration_id != configuration:
            continue
        for spec in stated.sharding_spec:
            groups = {group.key: tuple(group.value) for group in spec.index_to_device_group_map}
            yield spec.tensor_name, tuple(d for i in spec.device for d in groups.get(i, (i,)))
