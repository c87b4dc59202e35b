"""Modules through torch.export, for any batch and T, and from there to ONNX and to compiled code.

``evaluation/exporting.py`` records control flow as operators that have graphs.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from conformance.__main__ import GOLDEN
from conformance.corpus import find_cases, read_case
from conformance.recording import operator

from caffe2_bridge import Model, RunError, load
from caffe2_bridge.control import if_arguments
from caffe2_bridge.proto.caffe2_pb2 import NetDef

pytestmark = pytest.mark.torch

torch: Any = pytest.importorskip("torch")

MODELS: Final = GOLDEN / "models"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of its own
        yield


def module(name: str) -> tuple[Any, list[tuple[Any, ...]]]:
    """Return a golden model, without its cell states of every step, and its recorded inputs of several sizes."""
    from caffe2_torch import to_torch

    given = load(MODELS / name)
    outputs = [n for n in to_torch(given).outputs if not ("cell" in n and n.endswith("_all"))]
    made = to_torch(given, outputs=outputs).eval().requires_grad_(False)  # noqa: FBT003 - PyTorch's
    cases = [read_case(ref).inputs for ref in find_cases(MODELS / name)]
    return made, [tuple(torch.from_numpy(np.array(inputs[n])) for n in made.inputs) for inputs in cases]


def exported(made: Any, inputs: tuple[Any, ...]) -> Any:
    dynamic = tuple(dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO) for value in inputs)
    return torch.export.export(made, inputs, dynamic_shapes=(dynamic,))


def targets(program: Any) -> set[str]:
    return {str(node.target).split(".")[0] for node in program.graph.nodes if node.op == "call_function"}


def assert_same(actual: Any, expected: Any) -> None:
    as_tuple = [value if isinstance(value, tuple | list) else (value,) for value in (actual, expected)]
    for one, other in zip(*as_tuple, strict=True):
        torch.testing.assert_close(torch.as_tensor(one), other, rtol=1e-4, atol=1e-6)


CONTROL: Final = {
    "lstm": "scan", "gru": "scan", "lstm_two_layers": "scan", "attention_regular": "scan",
    "control_if_else": "cond", "control_if_no_else": "cond", "control_while_if": "while_loop",
}  # fmt: skip


@pytest.mark.parametrize("name", CONTROL)
def test_exported_models_take_other_sizes(name: str) -> None:
    made, inputs = module(name)
    program = exported(made, inputs[0])
    assert CONTROL[name] in targets(program)
    assert len({tuple(value.shape for value in values) for values in inputs}) > 1 or CONTROL[name] != "scan"
    for values in inputs:
        assert_same(program.module()(*values), made(*values))


def test_a_layer_of_a_known_number_of_steps_is_exported_as_one() -> None:
    made, inputs = module("lstm")
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


@pytest.mark.slow
@pytest.mark.parametrize(("name", "node"), [("lstm", "Scan"), ("control_if_else", "If"), ("control_while", "Loop")])
def test_exported_models_become_onnx(name: str, node: str, tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    made, inputs = module(name)
    onnx = torch.onnx.export(exported(made, inputs[0]), dynamo=True, verbose=False)
    assert node in {each.op_type for each in onnx.model.graph.all_nodes()}
    onnx.save(tmp_path / "model.onnx")
    session = ort.InferenceSession(tmp_path / "model.onnx")
    for values in inputs:
        fed = {given.name: value.numpy() for given, value in zip(session.get_inputs(), values, strict=True)}
        assert_same(session.run(None, fed), made(*values))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="AOTInductor needs a compiler of C++")
def test_exported_models_are_compiled(tmp_path: Path) -> None:
    made, inputs = module("control_if_else")
    package = torch._inductor.aoti_compile_and_package(
        exported(made, inputs[0]), package_path=str(tmp_path / "model.pt2")
    )
    compiled = torch._inductor.aoti_load_package(package)
    for values in inputs:
        assert_same(compiled(*values), made(*values))
