"""The calls of the module ``workspace`` that need no comparison with real Caffe2."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_bridge import ConversionError, NetFormatError, RunError
from caffe2_bridge.builder import Net
from caffe2_bridge.proto.caffe2_pb2 import ExecutionStep, NetDef, OperatorDef, PlanDef, TensorProto
from caffe2_compat import workspace

NET = NetDef(name="n", op=[operator("Relu", ["x"], ["y"])], external_input=["x"], external_output=["y"])
X = np.array([[-1, 2, 3]], np.float32)

pytestmark = pytest.mark.usefixtures("empty_workspace")


def test_errors_are_runtime_errors() -> None:
    for kind in (ConversionError, NetFormatError, RunError):
        assert issubclass(kind, RuntimeError)
    with pytest.raises(RuntimeError, match="the workspace has no blob 'absent'"):
        workspace.FetchBlob("absent")


def test_blobs_without_a_value() -> None:
    workspace.CreateNet(NET, input_blobs=["x"])
    assert workspace.Blobs() == ["x"]
    with pytest.raises(RunError, match="x"):
        workspace.RunNet("n")
    workspace.FeedBlob("x", X)
    assert workspace.RunNet("n")
    assert workspace.ResetBlob("x")
    assert b"uninitialized" in workspace.FetchBlob("x")
    assert workspace.RemoveBlob("x")
    assert not workspace.HasBlob("x")
    assert not workspace.RemoveBlob("x")


@pytest.mark.parametrize("value", [X, np.arange(70000), np.array(["a", "b"], object), np.ones((2, 2), np.float16)])
def test_serialized_blobs(value: np.ndarray) -> None:  # type: ignore[type-arg] # of several dtypes
    workspace.FeedBlob("x", value)
    workspace.DeserializeBlob("y", workspace.SerializeBlob("x"))
    assert workspace.FetchBlob("y").tolist() == workspace.FetchBlob("x").tolist()  # type: ignore[union-attr] # arrays
    with pytest.raises(NetFormatError, match="not a BlobProto"):
        workspace.DeserializeBlob("y", b"junk")


def test_a_tensor_message_is_fed() -> None:
    workspace.FeedBlob("x", TensorProto(dims=[2], data_type=TensorProto.INT64, int64_data=[3, -4]))
    assert workspace.blobs["x"].tolist() == [3, -4]  # type: ignore[union-attr] # an array


def test_root_folder(tmp_path: Path) -> None:
    workspace.SwitchWorkspace("rooted", create_if_missing=True)
    assert workspace.RootFolder() == "."
    workspace.ResetWorkspace(str(tmp_path / "root"))
    assert (tmp_path / "root").is_dir()
    assert workspace.RootFolder() == str(tmp_path / "root")


def test_nets_of_the_builder() -> None:
    net = Net("built")
    net.Relu("x", "y")
    workspace.FeedBlob("x", X)
    assert workspace.CreateNet(net)
    assert workspace.RunNet(net)
    assert workspace.GetNetName(net) == workspace.StringifyNetName(net) == "built"
    assert workspace.StringifyProto(net) == net.proto.SerializeToString()
    with pytest.raises(TypeError, match="Not a Net object: 3"):
        workspace.GetNetName(3)


def test_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    workspace.FeedBlob("x", X)
    workspace.CreateNet(NET)
    whole, relu = workspace.BenchmarkNet("n", 1, 3, run_individual=True)
    assert min(whole, relu, workspace.BenchmarkNetOnce("n")) > 0
    assert "Operator #0 (y, Relu)" in capsys.readouterr().out
    assert workspace.BenchmarkNet(NET, 0, 1, run_individual=False)[1:] == [0]
    with pytest.raises(RunError, match="net 'absent' does not exist"):
        workspace.BenchmarkNet("absent", 1, 1, run_individual=False)
    with pytest.raises(RunError, match="main_runs at least 1"):
        workspace.BenchmarkNet("n", 1, 0, run_individual=False)


def test_shapes_of_the_workspace() -> None:
    workspace.FeedBlob("x", X)
    workspace.FeedBlob("t", "text")
    shapes, types = workspace.InferShapesAndTypes([NET])
    assert shapes == {"x": [1, 3], "y": [1, 3]}
    assert types == {"x": TensorProto.FLOAT, "y": TensorProto.FLOAT}
    given = {"x": TensorProto.INT64}
    assert workspace.InferShapesAndTypes([NET], {"x": [4]}, blob_types=given)[1]["x"] == TensorProto.INT64


def test_the_shape_of_a_blob_that_is_overwritten() -> None:
    net = NetDef(name="n", op=[operator("Relu", ["x"], ["x"])])
    shapes, types = workspace.InferShapesAndTypes([net], {"x": [4, 2]})
    assert (shapes, types) == ({"x": [4, 2]}, {"x": TensorProto.FLOAT})


def test_the_shapes_of_gradients() -> None:
    concat = operator("Concat", ["x", "z"], ["y", "sizes"], axis=0)
    split = operator("Split", ["y_grad", "sizes"], ["x_grad", "z_grad"], axis=0)
    unknown = operator("Unique", ["x"], ["x_grad"])
    split.is_gradient_op = unknown.is_gradient_op = True
    given = {"x": [4, 2], "z": [1, 2], "y_grad": [5, 2]}
    shapes, _ = workspace.InferShapesAndTypes([NetDef(op=[concat, split])], given)
    assert (shapes["x_grad"], shapes["z_grad"]) == ([4, 2], [1, 2])
    shapes, _ = workspace.InferShapesAndTypes([NetDef(op=[unknown])], given)
    assert shapes["x_grad"] == [4, 2]


def test_an_operator_on_unknown_blobs_leaves_known_ones() -> None:
    net = NetDef(op=[operator("Relu", ["absent"], ["x"])])
    assert workspace.InferShapesAndTypes([net], {"x": [4]})[0] == {"x": [4]}


@pytest.mark.parametrize(
    ("op", "dims", "expected"),
    [
        (operator("IndexHash", ["x"], ["y"]), {"x": [2, 3]}, {"y": [2, 3]}),
        (operator("GatherRanges", ["v", "r"], ["y", "l"]), {"v": [64], "r": [3, 5, 2]}, {"y": [64], "l": [3]}),
        (operator("BatchBucketOneHot", ["x", "l", "b"], ["y"]), {"x": [7, 3], "l": [3], "b": [11]}, {"y": [7, 14]}),
        (
            operator("Concat", ["x", "x"], ["y", "s"], add_axis=1, order="NHWC"),
            {"x": [3, 4, 5, 6]},
            {"y": [3, 4, 5, 2, 6], "s": [2]},
        ),
        (operator("Concat", ["x", "x"], ["y", "s"], add_axis=1, axis=0), {"x": [3, 4]}, {"y": [2, 3, 4], "s": [2]}),
        (operator("DotProductWithPadding", ["x", "z"], ["y"]), {"x": [7], "z": [7]}, {"y": [7]}),
        (operator("LearningRate", ["x"], ["y"], policy="fixed", base_lr=1.0), {"x": [1]}, {"y": [1]}),
        (operator("Unique", ["x"], ["y", "z"]), {"x": [7]}, {"z": [7]}),
        (operator("Unique", ["x"], ["y"]), {"x": [0]}, {"y": [0]}),
        (operator("Unique", ["x"], ["y", "z"]), {"x": [1]}, {"y": [1], "z": [1]}),
        (operator("IndexHash", ["absent"], ["y"]), {}, {}),
    ],
)
def test_shapes_that_depend_on_values(op: OperatorDef, dims: dict[str, list[int]], expected: dict[str, Any]) -> None:
    shapes, _ = workspace.InferShapesAndTypes([NetDef(op=[op])], dims)
    assert {name: shapes[name] for name in op.output if name in shapes} == expected


def step_net(name: str) -> NetDef:
    return NetDef(name=name, op=[operator("Add", ["x", "x"], ["x"])])


def test_plans() -> None:
    workspace.FeedBlob("x", X)
    plan = PlanDef(name="p", network=[step_net("double")])
    plan.execution_step.add(num_iter=2).substep.add(network=["double"], num_iter=2)
    assert workspace.RunPlan(plan)
    assert workspace.FetchBlob("x").tolist() == (16 * X).tolist()  # type: ignore[union-attr] # an array
    running = workspace.RunPlanInBackground(plan)
    assert running.is_succeeded()
    assert running.is_done()
    plan.execution_step[0].substep[0].network[0] = "absent"
    with pytest.raises(RunError, match=r"the step runs net 'absent', which the plan lacks"):
        workspace.RunPlan(plan)
    with pytest.raises(RunError, match="'absent'"):
        workspace.RunPlanInBackground(plan).is_succeeded()


def test_steps_of_caffe2s_core() -> None:
    class ExecutionStepOfCore:
        def Name(self) -> str:  # noqa: N802 - Caffe2's name
            return "s"

        def Proto(self) -> ExecutionStep:  # noqa: N802 - Caffe2's name
            return ExecutionStep(name="s", network=["double"])

        def Nets(self) -> list[SimpleNamespace]:  # noqa: N802 - Caffe2's name
            return [SimpleNamespace(Proto=lambda: step_net("double"))]

    ExecutionStepOfCore.__name__ = "ExecutionStep"
    workspace.FeedBlob("x", X)
    assert workspace.RunPlan(ExecutionStepOfCore())
    assert workspace.FetchBlob("x").tolist() == (2 * X).tolist()  # type: ignore[union-attr] # an array


def test_tracebacks_of_operators(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise RunError("no")

    workspace.operator_tracebacks["n"][1] = [("model.py", 7, "build")]
    with caplog.at_level(logging.WARNING), pytest.raises(RunError, match="no"):
        workspace.CallWithExceptionIntercept(fail, lambda: 1, "n")
    assert 'File "model.py", line 7, in build' in caplog.text
    workspace.operator_tracebacks.clear()


def test_predictors_refuse_unknown_inputs() -> None:
    init = NetDef(name="i", op=[operator("GivenTensorFill", [], ["w"], shape=[3, 3], values=[1.0] * 9)])
    init.op.append(operator("GivenTensorFill", [], ["b"], shape=[3], values=[0.0] * 3))
    net = NetDef(name="p", op=[operator("FC", ["x", "w", "b"], ["y"])])
    net.external_input.extend(["x", "w", "b"])
    net.external_output.append("y")
    predictor = workspace.Predictor(init, net)
    assert predictor.run([X])[0].tolist() == [[4, 4, 4]]
    assert predictor.run([])[0].tolist() == [[4, 4, 4]]  # inputs persist
    with pytest.raises(RuntimeError, match=r"has 3 external inputs \(x, w, b\), but 4 values are given"):
        predictor.run([X] * 4)
    with pytest.raises(RuntimeError, match="has no blob 'z'; its inputs are x, w, b"):
        predictor.run({"z": X})
    with pytest.raises(RuntimeError, match="input 'x' must be an array, not int"):
        predictor.run([3])
    with pytest.raises(RuntimeError):
        predictor.run([X[0]])


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    workspace.FeedTorch("x", torch.ones(2, requires_grad=True))
    assert workspace.FetchTorch("x").tolist() == [1, 1]
    workspace.FeedBlob("s", np.array(["a"], object))
    with pytest.raises(RunError, match="not a tensor of numbers"):
        workspace.FetchTorch("s")


def test_gpu_queries() -> None:
    devices = workspace.NumGpuDevices()
    assert isinstance(workspace.has_gpu_support, bool)
    assert (workspace.GetDeviceProperties(0) is None) == (workspace.GetGPUMemoryInfo() is None) == (devices == 0)
    assert workspace.GetGpuPeerAccessPattern().shape[0] == devices
    with pytest.raises(AttributeError, match="no attribute 'FeedBlobs'"):
        workspace.FeedBlobs  # noqa: B018 - the access is what is tested
