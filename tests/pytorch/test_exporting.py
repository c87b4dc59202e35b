"""Modules through torch.export, for any batch and T, and from there to ONNX and to compiled code.

``evaluation/exporting.py`` records control flow as operators that have graphs.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from conformance.recording import operator
from support.golden_modules import assert_same, golden_module

from caffe2_bridge import Model, RunError
from caffe2_bridge.control import if_arguments
from caffe2_bridge.proto.caffe2_pb2 import NetDef

pytestmark = pytest.mark.torch

torch: Any = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of its own
        yield


def exported(made: Any, inputs: tuple[Any, ...]) -> Any:
    dynamic = tuple(dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO) for value in inputs)
    return torch.export.export(made, inputs, dynamic_shapes=(dynamic,))


def targets(program: Any) -> set[str]:
    return {str(node.target).split(".")[0] for node in program.graph.nodes if node.op == "call_function"}


CONTROL: Final = {
    "lstm": "scan", "gru": "scan", "lstm_two_layers": "scan", "attention_regular": "scan",
    "control_if_else": "cond", "control_if_no_else": "cond", "control_while_if": "while_loop",
}  # fmt: skip


@pytest.mark.parametrize("name", CONTROL)
def test_exported_models_take_other_sizes(name: str) -> None:
    made, inputs = golden_module(name)
    program = exported(made, inputs[0])
    assert CONTROL[name] in targets(program)
    assert len({tuple(value.shape for value in values) for values in inputs}) > 1 or CONTROL[name] != "scan"
    for values in inputs:
        assert_same(program.module()(*values), made(*values))


def test_a_layer_of_a_known_number_of_steps_is_exported_as_one() -> None:
    made, inputs = golden_module("lstm")
    program = torch.export.export(made, inputs[0])
    assert "scan" not in targets(program)
    assert "aten.lstm.input" in {str(node.target) for node in program.graph.nodes}
    assert_same(program.module()(*inputs[0]), made(*inputs[0]))


def test_sizes_stay_symbols() -> None:
    from caffe2_torch import to_torch

    ops = [operator("Concat", ["x", "x"], ["c", "dims"], axis=0), operator("Shape", ["c"], ["shape"])]
    ops += [operator("Size", ["c"], ["size"]), operator("Reshape", ["c", "shape"][:1], ["r", "old"], shape=[0, -1])]
    names = ["dims", "shape", "size", "old"]
    made = to_torch(Model.of(NetDef(name="n", op=ops, external_input=["x"], external_output=names)))
    program = exported(made, (torch.ones(3, 4),))
    found = [value.tolist() for value in program.module()(torch.ones(5, 2))]
    assert found == [[5, 5], [10, 2], 20, [10, 2]]


def test_fills_take_the_sizes_of_what_is_fed() -> None:
    from caffe2_torch import to_torch

    ops = [operator("ConstantFill", ["x"], ["like"], value=2.0), operator("Shape", ["x"], ["shape"])]
    ops += [operator("ConstantFill", ["shape"], ["of"], value=3, dtype=2, input_as_shape=1, extra_shape=[1])]
    made = to_torch(Model.of(NetDef(name="n", op=ops, external_input=["x"], external_output=["like", "of"])))
    other = torch.ones(5, 2)
    assert_same(exported(made, (torch.ones(3, 4),)).module()(other), made(other))


def test_branches_that_leave_other_blobs_are_refused() -> None:
    from caffe2_torch import to_torch

    def body(text: str, tensor: str) -> NetDef:
        """Return a net that leaves a string and a tensor."""
        ops = [
            operator("GivenTensorStringFill", [], [text], shape=[1], values=["a"]),
            operator("Relu", ["x"], [tensor]),
        ]
        return NetDef(name=text, op=[*ops, operator("Copy", ["x"], ["y"])])

    one, other = body("t", "u"), body("u", "t")
    branch = operator("If", ["c", "x"], ["y"], **if_arguments(one, other))
    net = NetDef(name="n", op=[branch], external_input=["c", "x"], external_output=["y"])
    made = to_torch(Model.of(net))
    with pytest.raises(RunError, match="If: the branches do not leave values for the same blobs"):
        exported(made, (torch.tensor([True]), torch.ones(2, 2)))


NO_NESTED: Final = pytest.mark.xfail(reason="PyTorch 2.13 does not inline a branch within a loop", strict=True)
TO_ONNX: Final = [
    ("lstm", "Scan"), ("gru", "Scan"), ("attention_regular", "Scan"), ("control_if_else", "If"),
    ("control_while", "Loop"), pytest.param("control_while_if", "Loop", marks=NO_NESTED),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "node"), TO_ONNX)
def test_exported_models_become_onnx(name: str, node: str, tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    made, inputs = golden_module(name)
    onnx = torch.onnx.export(exported(made, inputs[0]), dynamo=True, verbose=False)
    assert node in {each.op_type for each in onnx.model.graph.all_nodes()}
    onnx.save(tmp_path / "model.onnx")
    session = ort.InferenceSession(tmp_path / "model.onnx")
    for values in inputs:
        fed = {given.name: value.numpy() for given, value in zip(session.get_inputs(), values, strict=True)}
        assert_same(session.run(None, fed), made(*values))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="AOTInductor needs a compiler of C++")
@pytest.mark.parametrize("name", ["control_if_else", "control_while", "basic_rnn_tanh"])
def test_exported_models_are_compiled(name: str, tmp_path: Path) -> None:
    made, inputs = golden_module(name)
    package = torch._inductor.aoti_compile_and_package(
        exported(made, inputs[0]), package_path=str(tmp_path / "model.pt2")
    )
    compiled = torch._inductor.aoti_load_package(package)
    for values in inputs:
        assert_same(compiled(*values), made(*values))
