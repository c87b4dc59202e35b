"""The functions of the extension on workspaces, called as Caffe2's Python calls them.

Modules: operator_schemas.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from caffe2_bridge.diagnostics import ConversionError, RunError
from caffe2_bridge.gradients.operator_maker import make_operator
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef, OperatorDef, TensorProto, TensorShapes
from caffe2_compat import workspace
from caffe2_compat.extension import extension_names
from caffe2_compat.extension.left_out import LEFT_OUT

C = extension_names()


@pytest.fixture(autouse=True)
def _workspace() -> Iterator[None]:
    with workspace.WorkspaceGuard("extension"):
        yield
        workspace.ResetWorkspace()


def net_of(*ops: OperatorDef, name: str = "n") -> bytes:
    return NetDef(name=name, op=ops).SerializeToString()


COPY = make_operator("Copy", ["x"], ["y"])


def test_blobs_of_a_workspace() -> None:
    C["feed_blob"]("x", np.float32([1, 2]))
    current = C["Workspace"].current
    assert (set(current.blobs), C["blobs"](), current.has_blob(b"x")) == ({"x"}, ["x"], True)
    blob = current.create_blob("x")
    assert (blob.fetch().tolist(), blob.is_tensor(), blob == current.blobs["x"]) == ([1, 2], True, True)
    tensor = blob.tensor()
    tensor.data[0] = 5
    assert (C["fetch_blob"]("x").tolist(), tensor._shape) == ([5, 2], [2])
    tensor._reshape([2, 1])
    assert blob.fetch().shape == (2, 1)
    tensor.init([3], TensorProto.INT64)
    assert (tensor.fetch().dtype, tensor._shape) == (np.int64, [3])
    with pytest.raises(RunError, match="tensors of data type 4 cannot be accessed from Python"):
        tensor.init([3], TensorProto.STRING)
    assert current._remove_blob("x")
    with pytest.raises(KeyError):
        C["fetch_blob"]("x")


def test_texts_and_other_values() -> None:
    C["feed_blob"]("t", "abc")
    blob = C["Workspace"].current.blobs["t"]
    assert (C["fetch_blob"]("t"), blob.is_tensor()) == (b"abc", False)
    with pytest.raises(RunError, match="not a tensor"):
        blob.as_tensor()
    C["create_blob"]("empty")
    assert b"nullptr (uninitialized)" in C["fetch_blob"]("empty")
    C["run_operator_once"](make_operator("CreateMutex", [], ["m"]).SerializeToString())
    assert C["fetch_blob"]("m") == b"m, a C++ native class of type std::unique_ptr<std::mutex>."
    with pytest.raises(RunError, match="only numpy array or string are supported for feeding, not dict"):
        C["feed_blob"]("x", {})


def test_serialized_blobs() -> None:
    C["feed_blob"]("x", np.int32([1, 2]))
    content = C["serialize_blob"]("x")
    C["deserialize_blob"]("z", content)
    assert C["fetch_blob"]("z").tolist() == [1, 2]
    alone = C["deserialize_blob"](content)
    assert (alone.fetch().tolist(), alone.serialize("x")) == ([1, 2], content)


def test_nets_create_their_blobs_and_need_their_inputs() -> None:
    with pytest.raises(RunError, match="op Copy: Encountered a non-existing input blob: x"):
        C["create_net"](net_of(COPY), overwrite=False)
    C["create_blob"]("x")
    assert C["create_net"](net_of(COPY), overwrite=False)
    assert C["has_blob"]("y")
    C["feed_blob"]("x", np.float32([3]))
    assert C["run_net"]("n", 1, allow_fail=False)
    assert C["fetch_blob"]("y").tolist() == [3]
    assert (C["nets"](), set(C["Workspace"].current.nets)) == (["n"], {"n"})
    assert C["delete_net"]("n")
    with pytest.raises(TypeError, match="a net must be given as bytes, not str"):
        C["run_net_once"]("n")


def test_the_operator_that_failed() -> None:
    C["feed_blob"]("x", np.float32([3]))
    bad = make_operator("Reshape", ["y"], ["z", "s"], shape=[7])
    with pytest.raises(RuntimeError):
        C["run_net_once"](net_of(COPY, bad))
    assert C["Workspace"].current._last_failed_op_net_position() == 1
    with pytest.raises(RunError, match="non-existing input blob: absent"):
        C["create_net"](net_of(COPY, COPY, make_operator("Copy", ["absent"], ["y"])), overwrite=True)
    assert C["Workspace"].current._last_failed_op_net_position() == 2


def test_the_inputs_of_the_operator_that_failed() -> None:
    """Say what was fed: arrays are float64 where a program does not say otherwise."""
    for name, value in {"x": np.ones((2, 3)), "w": np.float32([[1, 2, 3]]), "b": np.float32([1])}.items():
        C["feed_blob"](name, value)
    dense = make_operator("FC", ["x", "w", "b"], ["y"])
    with pytest.raises(ConversionError) as caught:
        C["run_net_once"](net_of(dense))
    assert caught.value.__notes__ == ["Inputs of FC: x float64[2, 3], w float32[1, 3], b float32[1]"]
    C["feed_blob"]("x", np.ones((2, 5), np.float32))
    with pytest.raises(RunError) as failed:
        C["run_net_once"](net_of(dense))
    assert failed.value.__notes__ == ["Inputs of FC: x float32[2, 5], w float32[1, 3], b float32[1]"]


def test_errors_of_a_run_do_not_ask_for_descriptions() -> None:
    for name, shape in {"x": (1, 1, 4, 4), "w": (1, 1, 3, 3), "b": (1,)}.items():
        C["feed_blob"](name, np.ones(shape))
    with pytest.raises(ConversionError, match="must be FLOAT or FLOAT16, not DOUBLE") as caught:
        C["run_net_once"](net_of(make_operator("Conv", ["x", "w", "b"], ["y"], kernel=3)))
    assert "describe the input" not in str(caught.value)


def test_results_that_are_not_finite() -> None:
    for name, value in {"zero": 0, "one": 1}.items():
        C["feed_blob"](name, np.float32([value]))
    divide = net_of(make_operator("Div", ["one", "zero"], ["y"]))
    C["global_init"](["caffe2", "--caffe2_operator_throw_if_fp_exceptions=1", "--caffe2_log_level=2"])
    try:
        with pytest.raises(RunError, match="net 'n' raised floating point exceptions"):
            C["run_net_once"](divide)
        C["feed_blob"]("x", np.float32([np.inf]))
        C["run_net_once"](net_of(COPY))
    finally:
        C["global_init"](["caffe2", "--caffe2_operator_throw_if_fp_exceptions=0"])
    C["run_net_once"](divide)


def test_child_workspaces() -> None:
    C["feed_blob"]("x", np.float32([3]))
    parent = C["Workspace"].current
    child = C["Workspace"](parent)
    child._run_net(net_of(COPY))
    assert (sorted(child.blobs), sorted(parent.blobs)) == (["x", "y"], ["x"])
    C["switch_workspace"](child)
    assert (C["local_blobs"](), C["Workspace"].current == child) == (["y"], True)
    C["switch_workspace"](parent)
    C["create_child_workspace"]("extension", "inner")
    C["switch_workspace"]("inner")
    assert (C["current_workspace"](), C["blobs"](), C["local_blobs"]()) == ("inner", ["x"], [])
    C["switch_workspace"]("extension")


def test_gradients_and_schemas() -> None:
    gradient = C["GradientWrapper"]()
    assert gradient.is_empty()
    gradient.dense = "dy"
    ops, inputs = C["get_gradient_defs"](make_operator("Relu", ["x"], ["y"]).SerializeToString(), [gradient])
    assert (OperatorDef.FromString(ops[0]).type, inputs[0].dense) == ("ReluGradient", "x_grad")
    sparse = C["GradientWrapper"]()
    sparse.indices, sparse.values = "i", "v"
    assert (sparse.is_sparse(), sparse.is_dense()) == (True, False)
    with pytest.raises(RunError, match="Mul did not pass schema checking: 1 inputs and 1 outputs"):
        C["get_gradient_defs"](make_operator("Mul", ["x"], ["y"]).SerializeToString(), [gradient])
    schema = C["OpSchema"].get("FC")
    assert (schema.min_input, schema.max_input, schema.num_inputs_allowed(2)) == (3, 3, False)
    assert "axis" in [argument.name for argument in schema.args]
    assert C["OpSchema"].get("NoSuchOperator") is None
    assert "FC" in C["registered_operators"]()
    assert "Relu" in C["nearby_opnames"]("Rellu")
    assert C["op_registry_key"]("Conv", "CUDNN") == "Conv_ENGINE_CUDNN"


def test_inference() -> None:
    content = C["infer_shapes_and_types_from_map"]([net_of(COPY)], {"x": [2, 3]})
    shapes = {shape.name: list(shape.dims) for shape in TensorShapes.FromString(content).shapes}
    assert shapes == {"x": [2, 3], "y": [2, 3]}
    op = OperatorDef.FromString(COPY.SerializeToString())
    op.device_option.device_id = 1
    inputs, outputs = C["infer_op_input_output_device"](op.SerializeToString())
    assert [DeviceOption.FromString(content).device_id for content in (*inputs, *outputs)] == [1, 1]


@pytest.mark.parametrize(
    ("op", "shapes", "cost"),
    [  # from real Caffe2
        (make_operator("Conv", ["a", "b"], ["y"], kernel=3), [(2, 3, 8, 8), (5, 3, 3, 3)], (19440, 1440)),
        (make_operator("FC", ["a", "b", "c"], ["y"]), [(4, 6), (5, 6), (5,)], (260, 80)),
        (make_operator("Add", ["a", "b"], ["y"]), [(4, 6), (4, 6)], (24, 96)),
        (make_operator("BatchMatMul", ["a", "b"], ["y"]), [(2, 4, 6), (2, 6, 5)], (480, 160)),
        (make_operator("Sum", ["a"], ["y"]), [(4, 6)], (0, 96)),
        (make_operator("Relu", ["a"], ["y"]), [(4, 6)], (0, 96)),
    ],
    ids=lambda value: value.type if isinstance(value, OperatorDef) else "",
)
def test_costs(op: OperatorDef, shapes: list[tuple[int, ...]], cost: tuple[int, int]) -> None:
    for name, shape in zip(op.input, shapes, strict=True):
        C["feed_blob"](name, np.ones(shape, np.float32))
    assert C["get_operator_cost"](op.SerializeToString(), list(op.input)) == cost
    with pytest.raises(RunError, match="no cost function is defined for operator Exp"):
        C["get_operator_cost"](make_operator("Exp", ["a"], ["y"]).SerializeToString(), ["a"])


def test_observers() -> None:
    C["feed_blob"]("x", np.float32([3]))
    C["create_net"](net_of(COPY), overwrite=False)
    observer = C["add_observer_to_net"]("n", "TimeObserver")
    counter = C["add_observer_to_net"]("n", "RunCountObserver")
    C["run_net"]("n", 3, allow_fail=False)
    assert observer.average_time() > 0
    assert counter.debug_info() == "This operator runs 3 times."
    C["remove_observer_from_net"]("n", observer)
    assert C["num_observers_on_net"]("n") == 1
    with pytest.raises(RunError, match="the observer must be one of TimeObserver, RunCountObserver, not X"):
        C["add_observer_to_net"]("n", "X")


def test_databases(tmp_path: Path) -> None:
    path = str(tmp_path / "a.minidb")
    database = C["create_db"]("minidb", path, C["Mode"].write)
    transaction = database.new_transaction()
    transaction.put("key", b"value")
    del transaction
    database.close()
    cursor = C["create_db"]("minidb", path, C["Mode"](0)).new_cursor()
    assert (cursor.valid(), cursor.key(), cursor.value(), cursor.supports_seek()) == (True, b"key", b"value", False)
    cursor.next()
    assert not cursor.valid()
    cursor.seek_to_first()
    assert cursor.valid()
    assert "minidb" in C["registered_dbs"]()


def test_random_inputs() -> None:
    net = net_of(make_operator("Concat", ["a", "b"], ["y", "s"]))
    C["fill_random_network_inputs"](net, [[[2, 3], [2, 4]]], [["float", "int64_t"]])
    assert (C["fetch_blob"]("a").shape, C["fetch_blob"]("b").dtype) == ((2, 3), np.int64)
    with pytest.raises(RunError, match="Concat has 2 inputs, for 1 shapes and 1 types"):
        C["fill_random_network_inputs"](net, [[[2, 3]]], [["float"]])
    assert C["create_offline_tensor"]("o", [2], TensorProto.DOUBLE)
    assert C["fetch_blob"]("o").dtype == np.float64


def test_nothing_is_both_there_and_left_out() -> None:
    assert all(type(C[name]).__name__ == "_LeftOut" for name in LEFT_OUT)
    for name in ("has_gpu_support", "has_cuda_support"):
        assert name not in C


@pytest.mark.torch
def test_torch_tensors_share_their_values() -> None:
    import torch

    z = torch.ones(4, dtype=torch.int64)
    current = C["Workspace"].current
    blob = current.create_blob("z")
    blob._wrap_tensor_impl(z)
    z[1] = 5
    assert blob.fetch().tolist() == [1, 5, 1, 1]
    C["run_operator_once"](make_operator("Reshape", ["z"], ["z", "_"], shape=[2, 2]).SerializeToString())
    z[1, 1] = 7
    assert blob.fetch().tolist() == [[1, 5], [1, 7]]
    shared = blob.tensor()._tensor_impl_raw_handle()
    assert shared is z
    C["feed_blob"]("x", np.float32([3]))
    other = current.blobs["x"].tensor()._tensor_impl_raw_handle()
    other.resize_(2)[1] = 4
    assert C["fetch_blob"]("x").tolist() == [3, 4]
    C["feed_blob"]("x", "a text")
    C["run_operator_once"](make_operator("Copy", ["z"], ["c"]).SerializeToString())
    assert C["fetch_blob"]("x") == b"a text"


@pytest.mark.torch
def test_nets_that_read_torch_tensors_run_again() -> None:
    import torch

    z = torch.ones(2, 3)
    C["Workspace"].current.create_blob("z")._wrap_tensor_impl(z)
    C["feed_blob"]("x", np.zeros((2, 3), np.float32))
    net = net_of(make_operator("Sub", ["x", "z"], ["x"]), make_operator("Mul", ["x", "z"], ["y"]))
    workspace.CreateNet(net)
    for factor in (1, 2, 3):
        z[:] = factor
        workspace.RunNet("n")
    assert C["fetch_blob"]("x").tolist() == [[-6] * 3] * 2
    assert C["fetch_blob"]("y").tolist() == [[-18] * 3] * 2
