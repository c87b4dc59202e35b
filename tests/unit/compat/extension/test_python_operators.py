from __future__ import annotations

import pickle  # noqa: TID251 - as Caffe2's Python does
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from caffe2_backend.runtime.host import python_operators as host
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.gradients.operator_maker import make_operator
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_compat import workspace
from caffe2_compat.extension import extension_names, python_operators

C = extension_names()


@pytest.fixture(autouse=True)
def _workspace() -> Iterator[None]:
    with workspace.WorkspaceGuard("python operators"):
        workspace.FeedBlob("x", np.float32([1, 2]))
        yield
        workspace.ResetWorkspace()


def operator(function: Callable[..., Any], inputs: list[str], outputs: list[str], **args: Any) -> OperatorDef:
    token = C["register_python_op"](function, args.pop("pass_workspace", False), "")
    return make_operator("Python", inputs, outputs, token=token, **args)


def doubled(inputs: list[Any], outputs: list[Any]) -> None:
    outputs[0].feed(inputs[0].data * 2)


def test_a_function_between_operators_of_a_net() -> None:
    net = NetDef(name="n", op=[
        make_operator("Copy", ["x"], ["a"]), operator(doubled, ["a"], ["b"]), make_operator("Negative", ["b"], ["y"]),
    ])  # fmt: skip
    workspace.RunNetOnce(net)
    assert workspace.FetchBlob("y").tolist() == [-2, -4]


def test_in_place_and_reshaped() -> None:
    def grow(inputs: list[Any], outputs: list[Any]) -> None:
        outputs[0]._reshape([2, 1])
        outputs[0].data[...] = inputs[0].data + 1

    workspace.RunOperatorOnce(operator(grow, ["x"], ["x"]))
    assert workspace.FetchBlob("x").tolist() == [[2], [3]]


def test_an_output_that_is_not_written_is_empty() -> None:
    workspace.RunOperatorOnce(operator(lambda *_: None, ["x"], ["y", "x"]))
    assert (workspace.FetchBlob("y").size, workspace.FetchBlob("x").tolist()) == (0, [1, 2])


def test_inputs_may_change() -> None:
    workspace.RunNetOnce(NetDef(op=[make_operator("ConstantFill", [], ["c"], shape=[2], value=1.0)]))
    net = NetDef(name="n", op=[make_operator("Add", ["c", "c"], ["y"])])
    workspace.CreateNet(net)
    workspace.RunNet("n")

    def change(inputs: list[Any], _: list[Any]) -> None:
        inputs[0].data[0] = 5

    workspace.RunOperatorOnce(operator(change, ["c"], []))
    workspace.RunNet("n")
    assert workspace.FetchBlob("y").tolist() == [10, 2]


def test_errors_of_functions_are_their_own() -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("in the function")

    with pytest.raises(ZeroDivisionError, match="in the function"):
        workspace.RunOperatorOnce(operator(fail, [], []))


def test_the_workspace_is_passed_on_request() -> None:
    seen = []

    def look(_inputs: list[Any], _outputs: list[Any], ws: Any) -> None:
        seen.append(ws.blobs["x"].fetch().tolist())
        ws.create_blob("made")._feed(np.float32([3]))

    workspace.RunOperatorOnce(operator(look, [], [], pass_workspace=True))
    assert (seen, workspace.FetchBlob("made").tolist()) == ([[1, 2]], [3])


def test_inputs_that_are_not_tensors() -> None:
    seen = []
    workspace.FeedBlob("t", "text")
    workspace.RunOperatorOnce(operator(lambda inputs, _: seen.append(inputs[0].fetch()), ["t"], []))
    assert seen == [b"text"]


def test_gradients() -> None:
    op = operator(doubled, ["x"], ["y"])
    token = op.arg[0].s.decode()

    def backward(inputs: list[Any], outputs: list[Any]) -> None:
        assert len(inputs) == 3  # input, output, gradient of the output
        outputs[0].feed(inputs[2].data * 2)

    C["register_python_gradient_op"](token, backward)
    wrapper = C["GradientWrapper"]("dy")
    (gradient,), (dx,) = C["get_gradient_defs"](op.SerializeToString(), [wrapper])
    workspace.FeedBlob("dy", np.float32([1, 10]))
    workspace.RunOperatorOnce(op)
    workspace.RunOperatorOnce(gradient)
    assert workspace.FetchBlob(dx.dense).tolist() == [2, 20]
    with pytest.raises(RunError, match="no Python operator is registered as 'none'"):
        C["register_python_gradient_op"]("none", backward)


class Builder:
    """Builds a function, once for each net."""

    built = 0

    def __init__(self, factor: int) -> None:
        type(self).built += 1
        self.factor = factor

    def __call__(self, inputs: list[Any], outputs: list[Any]) -> None:
        outputs[0].feed(inputs[0].data * self.factor)


def test_builders_run_once_per_net() -> None:
    op = make_operator("Python", ["x"], ["y"], pickled_builder=pickle.dumps((_build, [3], {})))
    workspace.CreateNet(NetDef(name="n", op=[op]))
    workspace.RunNet("n", 2)
    assert (workspace.FetchBlob("y").tolist(), Builder.built) == ([3, 6], 1)


def _build(factor: int) -> Builder:
    return Builder(factor)


def test_functions_that_do_not_exist() -> None:
    op = make_operator("Python", ["x"], ["y"], token="nowhere")  # noqa: S106 - the name of a function
    with pytest.raises(RunError, match="no Python function is registered as 'nowhere' in this process"):
        workspace.RunOperatorOnce(op)


def test_nets_alone_do_not_run_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_callers", [])
    op = make_operator("Python", ["x"], ["y"], pickled_builder=pickle.dumps((_build, [3], {})))
    with pytest.raises(RunError, match="run only in programs of Caffe2's own Python"):
        workspace.RunOperatorOnce(op)


def test_dlpack() -> None:
    def look(inputs: list[Any], outputs: list[Any]) -> None:
        assert type(inputs[0].data).__name__ == "PyCapsule"
        outputs[0].feed(np.float32([9]))

    token = python_operators.register_python_op(look, pass_workspace=False, token="")
    workspace.RunOperatorOnce(make_operator("PythonDLPack", ["x"], ["y"], token=token))
    assert workspace.FetchBlob("y").tolist() == [9]
