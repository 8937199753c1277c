"""Drafts: what is not touched stays as it is, what is touched computes what it should."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from shapesolve.change.draft import Draft, DraftNode, as_array
from shapesolve.change.writing import write
from shapesolve.model import read_model

from .. import building

MODELS = sorted((Path(__file__).resolve().parent.parent / "models").glob("*/model.onnx"))


def parsed(text: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(text)
    onnx.checker.check_model(model)
    return model


def run(model: onnx.ModelProto, **feeds: np.ndarray) -> list[np.ndarray]:
    session = building.session(model)
    return session.run(None, feeds)


BRANCHES = """<ir_version: 8, opset_import: ["" : 18]>
g (float[n] x, bool c) => (float[n] y) <float[1] w = {2.0}, float[1] unused = {1.0}, float[n] z> {
  z = Mul(x, w)
  dead = Neg(z)
  y = If (c) <
    then_branch = a () => (float[n] t) { t = Abs(z) s = Exp(z) },
    else_branch = b () => (float[n] e) { e = Neg(z) }
  >
}
"""


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.parent.name)
def test_a_draft_that_changes_nothing_writes_the_same_model(path: Path) -> None:
    original = onnx.load(path, load_external_data=False)
    again = write(Draft(read_model(original)))
    again.graph.ClearField("initializer")  # those of which nothing is needed are left out
    original.graph.ClearField("initializer")
    assert again == original


def test_the_original_stays_as_it_is() -> None:
    original = parsed(BRANCHES)
    before = original.SerializeToString(deterministic=True)
    draft = Draft(read_model(original))
    draft.graph.producers()["z"].op_type = "Add"
    draft.drop_dead()
    changed = write(draft)
    assert original.SerializeToString(deterministic=True) == before
    assert changed.SerializeToString(deterministic=True) != before


def test_dead_nodes_go_with_their_weights_and_declarations_also_in_graphs_inside() -> None:
    draft = Draft(read_model(parsed(BRANCHES)))
    assert [node.op_type for node in draft.drop_dead()] == ["Neg", "Exp"]
    changed = write(draft)
    onnx.checker.check_model(changed)
    assert [t.name for t in changed.graph.initializer] == ["w"]
    assert [v.name for v in changed.graph.value_info] == ["z"]
    x = np.array([-1, 2], np.float32)
    for c in (True, False):
        (y,) = run(changed, x=x, c=np.array(c))
        assert y.tolist() == ([2, 4] if c else [2, -4])


def test_uses_are_renamed_in_graphs_inside_but_not_where_the_name_is_another_tensor() -> None:
    draft = Draft(read_model(parsed(BRANCHES)))
    draft.graph.rename("z", "x")
    (branch,) = [n for n in draft.graph.nodes if n.op_type == "If"]
    assert branch.graphs["then_branch"].nodes[0].inputs == ["x"]
    draft.drop_dead()
    (y,) = run(write(draft), x=np.array([-3], np.float32), c=np.array(True))
    assert y.tolist() == [3]


def test_equal_constants_are_stored_once_and_names_are_never_taken_twice() -> None:
    draft = Draft(read_model(parsed(BRANCHES)))
    first = draft.graph.constant(as_array([0, -1]), "t")  # t is taken, by a tensor of a branch
    assert first != "t"
    assert draft.graph.constant(as_array([0, -1]), "other") == first
    assert draft.graph.constant(as_array([[0, -1]]), "t") != first
    assert draft.graph.constant(as_array([0, -1], np.int32), "t") != first
    assert draft.graph.new_node("Neg", ["x"], "z").outputs != ["z"]


@pytest.mark.parametrize("ir_version", [3, 8])
def test_constants_and_new_nodes_run(ir_version: int) -> None:
    model = parsed(
        '<ir_version: 8, opset_import: ["" : 13]> g (float[a, b] x) => (float[c] y) { y = Neg(x) }'
    )
    model.ir_version = ir_version
    draft = Draft(read_model(model))
    graph = draft.graph
    flat = graph.new_node("Reshape", ["x", graph.constant(as_array([-1]), "target")], "flat")
    graph.nodes[0].inputs = [*flat.outputs]
    graph.nodes.insert(0, flat)
    changed = write(draft)
    onnx.checker.check_model(changed)
    (y,) = run(changed, x=np.ones((2, 3), np.float32))
    assert y.shape == (6,)


def test_an_initializer_that_is_an_input_as_well_stays() -> None:
    model = parsed(BRANCHES)
    model.ir_version = 3
    for t in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(t.name, t.data_type, t.dims))
    draft = Draft(read_model(model))
    draft.drop_dead()
    assert [t.name for t in write(draft).graph.initializer] == ["w", "unused"]


def test_functions_get_constants_as_nodes() -> None:
    model = parsed("""<ir_version: 8, opset_import: ["" : 18, "f" : 1]>
    g (float[n] x) => (float[n] y) { y = f.double(x) }
    <domain: "f", opset_import: ["" : 18]> double (a) => (b) { two = Constant <value_float = 2.0> () b = Mul(a, two) }
    """)
    draft = Draft(read_model(model))
    (body,) = draft.functions.values()
    mul = body.nodes[1]
    mul.inputs[1] = body.constant(np.array(3, np.float32), "three")
    assert [n.op_type for n in draft.drop_dead()] == ["Constant"]
    (y,) = run(write(draft), x=np.array([1], np.float32))
    assert y.tolist() == [3]


def test_metadata_attributes_and_docs_of_a_changed_node_stay() -> None:
    model = parsed(BRANCHES)
    node = model.graph.node[0]
    node.doc_string, node.name = "why", "scale"
    node.metadata_props.add(key="namespace", value="layer.0")
    draft = Draft(read_model(model))
    draft.graph.nodes[0].inputs.reverse()
    (changed,) = [n for n in write(draft).graph.node if n.name == "scale"]
    assert (changed.doc_string, changed.metadata_props[0].value) == ("why", "layer.0")
    assert [*changed.input] == ["w", "x"]


def test_external_data_stays_external(tmp_path: object) -> None:
    model = parsed(BRANCHES)
    weight = numpy_helper.from_array(np.ones(1, np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="not there.bin")
    model.graph.initializer[0].CopyFrom(weight)
    draft = Draft(read_model(model))
    draft.graph.nodes.append(DraftNode("Neg", ["w"], ["other"]))
    assert write(draft).graph.initializer[0] == weight


def test_attributes_are_replaced_and_left_out() -> None:
    model = parsed(
        '<ir_version: 8, opset_import: ["" : 18]> g (float[n, 4] x) => (float[n, m] y)'
        " { y = Gemm <alpha = 0.5, transB = 1> (x, x) }"
    )
    draft = Draft(read_model(model))
    (node,) = draft.graph.nodes
    assert (node.attribute("alpha"), node.attribute("beta", 1.0)) == (0.5, 1.0)
    node.own.update(alpha=None, beta=2.0)
    (changed,) = write(draft).graph.node
    assert {a.name for a in changed.attribute} == {"transB", "beta"}
