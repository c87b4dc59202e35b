"""Workspaces: blobs that are fed, made by nets, and fetched."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.runtime import Int8Tensor
from caffe2_backend.runtime.blobs.results import DeferredBlob
from caffe2_backend.runtime.values import Array
from caffe2_bridge import BridgeError, ConversionError, RunError
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA, PROTO_HIP, NetDef, TensorProto

X = np.array([[-1.0, 2.0], [3.0, -4.0]], np.float32)


def relu_net(**fields: Any) -> NetDef:
    ops = [operator("Relu", ["X"], ["Y"]), operator("Negative", ["Y"], ["Z"]), operator("Copy", ["Z"], ["W"])]
    return NetDef(name="relu", op=ops, external_input=["X"], **fields)


@pytest.mark.parametrize("name", [None, 3, b"X"])
def test_a_name_is_a_text(name: Any) -> None:
    with pytest.raises(RunError, match="the name of a blob must be a text"):
        Workspace().feed(name, X)


def test_feed_and_fetch_copy() -> None:
    workspace = Workspace()
    given = X.copy()
    workspace.feed("X", given)
    given[:] = 0
    fetched = workspace.fetch("X")
    np.testing.assert_array_equal(fetched, X)
    fetched[:] = 0  # type: ignore[index] # an array
    np.testing.assert_array_equal(workspace.fetch("X"), X)


def test_blobs_by_name() -> None:
    workspace = Workspace()
    workspace.feed("b", 1.5)
    workspace.feed("a", [1, 2])
    assert workspace.blobs() == ["a", "b"]
    assert workspace.has_blob("a")
    assert workspace.remove_blob("a")
    assert not workspace.remove_blob("a")
    workspace.reset()
    assert workspace.blobs() == []


def test_texts() -> None:
    workspace = Workspace()
    workspace.feed("text", "hello")
    assert workspace.fetch("text") == b"hello"
    workspace.feed("texts", np.array([["a", "é"]]))
    fetched = workspace.fetch("texts")
    assert isinstance(fetched, np.ndarray)
    assert fetched.tolist() == [[b"a", "é".encode()]]
    workspace.feed("texts", np.array([["ab", "c"]]))
    workspace.run_operator_once(operator("StringPrefix", ["texts"], ["short"], length=1))
    assert workspace.fetch("short").tolist()[0][0] == b"a"  # type: ignore[union-attr] # an array


@pytest.mark.parametrize("value", [object(), np.array([1j]), np.array([{}], object), None])
def test_what_is_no_tensor_is_refused(value: Any) -> None:
    with pytest.raises(RunError, match="blob 'x'"):
        Workspace().feed("x", value)


def test_int8_blobs() -> None:
    workspace = Workspace()
    workspace.feed("x", Int8Tensor(np.array([0, 128, 255], np.uint8), 0.5, 128))
    workspace.run_operator_once(operator("Int8Dequantize", ["x"], ["y"]))
    np.testing.assert_array_equal(workspace.fetch("y"), np.array([-64, 0, 63.5], np.float32))
    workspace.run_operator_once(operator("Int8Quantize", ["y"], ["z"], Y_scale=0.25, Y_zero_point=3))
    fetched = workspace.fetch("z")
    assert isinstance(fetched, Int8Tensor)
    assert (fetched.scale, fetched.zero_point, fetched.data.tolist()) == (0.25, 3, [0, 3, 255])
    workspace.run_operator_once(operator("Int8Flatten", ["z"], ["f"], axis=0, Y_scale=0.25, Y_zero_point=3))
    assert isinstance(workspace.fetch("f"), Int8Tensor)


def test_every_blob_that_a_net_writes_can_be_fetched() -> None:
    workspace = Workspace()
    workspace.feed("X", X)
    workspace.create_net(relu_net(external_output=["W"]))
    workspace.run_net("relu")
    before = workspace.conversions()
    assert workspace.has_blob("Y")
    np.testing.assert_array_equal(workspace.fetch("Y"), np.maximum(X, 0))
    for _ in range(2):
        workspace.run_net("relu")
        workspace.fetch("Y")
    assert workspace.conversions() == before, "a blob that was fetched before is computed with the others"


def test_a_blob_fetched_late_is_of_its_run() -> None:
    workspace = Workspace()
    workspace.feed("X", X)
    workspace.run_net_once(relu_net(external_output=["W"]))
    workspace.feed("X", X + 100)
    np.testing.assert_array_equal(workspace.fetch("Y"), np.maximum(X, 0))


def test_in_place_updates_are_seen_by_the_next_run() -> None:
    workspace = Workspace()
    workspace.feed("count", np.zeros(1, np.float32))
    workspace.feed("one", np.ones(1, np.float32))
    net = NetDef(name="count", op=[operator("Add", ["count", "one"], ["count"])], external_input=["count", "one"])
    workspace.create_net(net)
    for expected in (1, 2, 3):
        workspace.run_net("count")
        assert workspace.fetch("count") == np.array([expected], np.float32)
    workspace.run_net("count", 10)
    assert workspace.fetch("count") == np.array([13], np.float32)
    assert workspace.conversions() == 1


def test_an_intermediate_late_sees_the_state_before_the_run() -> None:
    workspace = Workspace()
    workspace.feed("s", np.ones(1, np.float32))
    ops = [operator("Scale", ["s"], ["double"], scale=2.0), operator("Copy", ["double"], ["s"])]
    workspace.create_net(NetDef(name="n", op=ops, external_input=["s"], external_output=["s"]))
    workspace.run_net("n", 3)
    assert workspace.fetch("double") == np.array([8], np.float32)
    assert workspace.fetch("s") == np.array([8], np.float32)


def test_shapes_change_without_a_conversion_and_dtypes_with_one() -> None:
    workspace = Workspace()
    workspace.create_net(relu_net(external_output=["W"]))
    for rows in (1, 5, 3):
        workspace.feed("X", np.full((rows, 2), -2, np.float32))
        workspace.run_net("relu")
        assert workspace.fetch("W").shape == (rows, 2)  # type: ignore[union-attr] # an array
    assert workspace.conversions() == 1
    workspace.feed("X", X[0])
    workspace.run_net("relu")
    assert workspace.conversions() == 2
    workspace.feed("X", X)
    workspace.run_net("relu")
    assert workspace.conversions() == 2


def test_filled_blobs_are_constants_until_they_change() -> None:
    workspace = Workspace()
    fill = operator("GivenTensorFill", [], ["w"], shape=[2], values=[1.0, 2.0])
    workspace.run_net_once(NetDef(name="init", op=[fill]))
    workspace.feed("x", np.ones(2, np.float32))
    net = NetDef(name="n", op=[operator("Mul", ["x", "w"], ["y"])], external_input=["x", "w"])
    workspace.create_net(net)
    workspace.run_net("n")
    assert workspace.fetch("y").tolist() == [1, 2]  # type: ignore[union-attr] # an array
    for value in (5.0, 7.0, 9.0):
        workspace.feed("w", np.full(2, value, np.float32))
        workspace.run_net("n")
        assert workspace.fetch("y").tolist() == [value, value]  # type: ignore[union-attr] # an array
    assert workspace.conversions() == 2, "after its first change the blob is an input"


def test_random_fills_differ_unless_seeded() -> None:
    fill = operator("GaussianFill", [], ["g"], shape=[4])
    workspace = Workspace(seed=1)

    def draw(net: NetDef | None = None) -> list[float]:
        workspace.run_net_once(net or NetDef(op=[fill]))
        return workspace.fetch("g").tolist()  # type: ignore[return-value, union-attr] # an array of floats

    first = draw()
    assert draw() != first
    seeded = NetDef(name="seeded", op=[fill])
    seeded.op[0].device_option.random_seed = 3
    assert draw(seeded) == draw(seeded)
    workspace.create_net(seeded)
    workspace.run_net("seeded")
    start = workspace.fetch("g").tolist()  # type: ignore[union-attr] # an array
    workspace.run_net("seeded")
    assert workspace.fetch("g").tolist() != start  # type: ignore[union-attr] # an array
    again = Workspace(seed=1)
    again.run_net_once(NetDef(op=[fill]))
    assert again.fetch("g").tolist() == first  # type: ignore[union-attr] # an array


def test_blobs_of_one_random_run_belong_together() -> None:
    workspace = Workspace()
    workspace.feed("shape", np.array([64], np.int64))
    ops = [
        operator("UniformFill", ["shape"], ["u"], input_as_shape=1),
        operator("Scale", ["u"], ["double"], scale=2.0),
        operator("Negative", ["double"], ["n"]),
    ]
    workspace.run_net_once(NetDef(name="r", op=ops, external_input=["shape"], external_output=["n"]))
    u, double, n = (np.asarray(workspace.fetch(name)) for name in ("u", "double", "n"))
    assert np.unique(u).size > 32
    np.testing.assert_array_equal(double, 2 * u)
    np.testing.assert_array_equal(n, -double)


def test_objects_and_bodies() -> None:
    workspace = Workspace()
    body = NetDef(name="b", op=[operator("Negative", ["in"], ["out"])])
    workspace.run_operator_once(operator("CreateScope", [], ["stack"]))
    assert workspace.has_blob("stack")
    with pytest.raises(RunError, match="CreateScope"):
        workspace.fetch("stack")
    workspace.feed("x", X)
    do = operator("Do", ["x", "stack"], ["y", "stack"], net=body, inner_blobs=["in", "out"], outer_blobs_idx=[0, 1])
    workspace.run_operator_once(do)
    np.testing.assert_array_equal(workspace.fetch("y"), -X)


@pytest.mark.parametrize("condition", [True, False])
def test_undeclared_blobs_of_branches_stay_behind(condition: bool) -> None:
    workspace = Workspace()
    workspace.feed("c", np.array([condition]))
    workspace.feed("x", X)
    workspace.feed("hidden", X * 0)
    then = NetDef(name="t", op=[operator("Negative", ["x"], ["hidden"])])
    workspace.run_operator_once(operator("If", ["c"], [], then_net=then))
    np.testing.assert_array_equal(workspace.fetch("hidden"), -X if condition else X * 0)


def test_a_missing_blob_is_named_with_its_reader() -> None:
    workspace = Workspace()
    workspace.create_net(relu_net())
    with pytest.raises(RunError, match=r"relu\[0\] Relu reads blob 'X'"):
        workspace.run_net("relu")
    with pytest.raises(KeyError):
        workspace.fetch("X")


def test_nets_by_name() -> None:
    workspace = Workspace()
    assert workspace.create_net(relu_net()) == "relu"
    with pytest.raises(RunError, match="already"):
        workspace.create_net(relu_net())
    workspace.create_net(relu_net(), overwrite=True)
    with pytest.raises(RunError, match="net 'other' does not exist"):
        workspace.run_net("other")
    assert workspace.nets() == ["relu"]


def test_a_refused_net_says_why() -> None:
    workspace = Workspace()
    workspace.feed("x", X)
    with pytest.raises(ConversionError, match="NoSuchOperator"):
        workspace.run_operator_once(operator("NoSuchOperator", ["x"], ["y"]))
    assert not workspace.has_blob("y")


def test_what_does_not_fit_in_memory_says_where() -> None:
    fill = operator("ConstantFill", [], ["y"], shape=[1 << 46])
    with pytest.raises(RunError, match=r"ConstantFill.*: there is not enough memory"):
        Workspace().run_operator_once(fill)

    def read(_: str) -> Array:
        raise MemoryError("1 TiB")

    workspace = Workspace()
    workspace.set_deferred("x", DeferredBlob(read))
    with pytest.raises(RunError, match=r"^net 'n': there is not enough memory: 1 TiB$"):
        workspace.run_net_once(NetDef(name="n", op=[operator("Relu", ["x"], ["y"])], external_input=["x"]))


def test_a_bad_fill_says_where() -> None:
    fill = operator("GivenTensorFill", [], ["w"], shape=[3], values=[1.0])
    with pytest.raises(RunError, match=r"init\[0\] GivenTensorFill: shape \[3\]"):
        Workspace().run_net_once(NetDef(name="init", op=[fill]))


def test_conversions_that_need_sizes_are_kept_by_shape() -> None:
    workspace = Workspace()
    net = NetDef(name="n", op=[operator("Expand", ["x", "shape"], ["y"])], external_input=["x", "shape"])
    workspace.create_net(net)
    counts = []
    for shape in ([2, 3], [2, 2, 3], [4, 3], [1, 5, 3]):
        workspace.feed("x", np.arange(3, dtype=np.float32))
        workspace.feed("shape", np.array(shape, np.int64))
        workspace.run_net("n")
        assert np.asarray(workspace.fetch("y")).shape == tuple(shape)
        counts.append(workspace.conversions())
    assert counts == [1, 2, 2, 2]


def gpu_net(kind: int = PROTO_CUDA) -> NetDef:
    net = relu_net()
    net.op[0].device_option.device_type = kind
    return net


def test_cpu_ignores_device_options_with_one_warning() -> None:
    workspace = Workspace("cpu")
    workspace.feed("X", X)
    with pytest.warns(RuntimeWarning, match="device options are ignored"):
        workspace.run_net_once(gpu_net())
    workspace.create_net(gpu_net())  # a second warning would be an error
    workspace.run_net("relu")
    np.testing.assert_array_equal(workspace.fetch("W"), -np.maximum(X, 0))


def test_a_device_that_is_not_there() -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has CUDA")
    workspace = Workspace()
    workspace.feed("X", X)
    net = gpu_net()
    for op in net.op:
        op.device_option.device_type = PROTO_CUDA
    with pytest.warns(RuntimeWarning, match="net 'relu' asks for GPUs, but this onnxruntime has no CUDA"):
        workspace.run_net_once(net)
    workspace.run_net_once(gpu_net(PROTO_HIP))  # warned once
    for make in (lambda: Workspace("cuda:0"), lambda: workspace.set_device("cuda:0")):
        with pytest.raises(RunError, match=r"cuda:0 is not available: this onnxruntime has no CUDA.*device='cpu'"):
            make()
    with pytest.raises(RunError, match="neither 'cpu' nor"):
        Workspace("tpu")


def test_threads_run_different_nets_of_one_workspace() -> None:
    workspace = Workspace()
    counts = {"a": 40, "b": 60, "c": 50}
    workspace.feed("one", np.ones(1, np.float32))
    for name in counts:
        workspace.feed(name, np.zeros(1, np.float32))
        op = operator("Add", [name, "one"], [name])
        workspace.create_net(NetDef(name=name, op=[op], external_input=[name, "one"]))
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            workspace.run_net(name, counts[name])
        except BridgeError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert {name: float(np.asarray(workspace.fetch(name))[0]) for name in counts} == counts


def test_nets_of_other_kinds() -> None:
    workspace = Workspace()
    workspace.feed("X", X)

    class Wrapped:
        def Proto(self) -> NetDef:  # noqa: N802 - Caffe2's name
            return relu_net()

    workspace.run_net_once(Wrapped())
    workspace.run_net_once(relu_net().SerializeToString())
    workspace.run_operator_once(operator("Cast", ["X"], ["i"], to=TensorProto.INT32).SerializeToString())
    assert workspace.fetch("i").dtype == np.int32  # type: ignore[union-attr] # an array
    with pytest.raises(RunError, match="expected an OperatorDef, got int"):
        workspace.run_operator_once(3)  # type: ignore[arg-type] # the error under test
