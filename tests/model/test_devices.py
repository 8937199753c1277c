"""Devices that nodes state are followed to the tensors without a statement."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest

import shapesolve as ss


def sharded() -> onnx.ModelProto:
    model = onnx.parser.parse_model(
        '<ir_version: 11, opset_import: ["": 18]> g (float[N, 4] x, float[4, 8] w) => (y, u) {'
        " h = MatMul(x, w) r = Relu(h) y = Add(r, h) u = Neg(w) }"
    )
    for name in ("two", "four"):
        model.configuration.add(name=name, num_devices=2 if name == "two" else 4)
    stated = model.graph.node[0].device_configurations.add(configuration_id="two")
    stated.sharding_spec.add(tensor_name="x", device=[0, 1])
    stated.sharding_spec.add(tensor_name="h", device=[0, 1])
    other = model.graph.node[1].device_configurations.add(configuration_id="four")
    group = other.sharding_spec.add(tensor_name="r", device=[-1, 3])
    group.index_to_device_group_map.add(key=-1, value=[0, 2])
    return model


def test_what_is_stated_is_followed() -> None:
    assert ss.devices(sharded()) == {"x": (0, 1), "h": (0, 1), "r": (0, 1), "y": (0, 1)}


def test_another_configuration_and_groups_of_devices() -> None:
    assert ss.devices(sharded(), "four") == {"r": (0, 2, 3), "y": (0, 2, 3)}


def test_specs_of_a_node_that_differ_say_nothing_of_other_tensors() -> None:
    model = sharded()
    model.graph.node[0].device_configurations[0].sharding_spec[0].device[:] = [1]
    del model.graph.node[0].device_configurations[0].sharding_spec[1]
    add = model.graph.node[2].device_configurations.add(configuration_id="two")
    add.sharding_spec.add(tensor_name="r", device=[0])
    add.sharding_spec.add(tensor_name="h", device=[1])
    assert ss.devices(model) == {"x": (1,), "h": (1,), "r": (0,)}


def test_a_model_without_devices() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (float[N] x) => (y) { y = Relu(x) }'
    )
    assert ss.devices(model) == {}
    with pytest.raises(ValueError, match="the model has none"):
        ss.devices(model, "two")
