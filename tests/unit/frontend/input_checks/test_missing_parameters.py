"""Warnings about parameters without a value, and about models without inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from conformance.recording import operator
from support.cells import fills

from caffe2_bridge import Model, load, save
from caffe2_bridge.diagnostics import Severity
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import check, convert, to_onnx

NET = NetDef(
    name="n",
    op=[operator("Conv", ["data", "w", "b"], ["a"], kernel=3), operator("FC", ["a", "u", "c"], ["y"])],
    external_input=["data", "w", "b", "u", "c"],
    external_output=["y"],
)
INIT = fills({"w": np.ones((2, 3, 3, 3)), "b": np.ones(2), "u": np.ones((4, 2)), "c": np.ones(4)})


def warnings(*nets: NetDef, **options: object) -> list[str]:
    found = check(*nets, **options).findings  # type: ignore[arg-type] # the options of check
    return [str(finding) for finding in found if finding.severity is Severity.WARNING]


def test_parameters_without_a_value_are_counted_and_the_model_takes_them() -> None:
    (warning,) = warnings(NET)
    assert warning == (
        "n: warning: 4 of 5 inputs are parameters without a value ('w', 'b', 'u' and 1 more): no init net was given "
        "[missing-parameters] (give the init net: --init FILE, or init_net=...; without it the ONNX model has the "
        "parameters as inputs, and export needs --no-weights)"
    )
    assert [value.name for value in to_onnx(NET).graph.input] == ["data", "w", "b", "u", "c"]
    assert warnings(NET, INIT) == []


def test_an_init_net_that_lacks_some() -> None:
    (warning,) = warnings(NET, fills({"w": np.ones((2, 3, 3, 3)), "b": np.ones(2)}))
    assert "2 of 3 inputs are parameters without a value ('u', 'c'): the init net does not fill them" in warning


def test_where_the_init_net_was_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "lenet_predict_net.pb"
    path.write_bytes(NET.SerializeToString())
    (finding,) = check(load(path)).findings
    assert f"no init net was found in {tmp_path} (looked for lenet_init_net, lenet_init, " in finding.reason
    # The hint works when it is typed.
    (tmp_path / "weights.pb").write_bytes(INIT.SerializeToString())
    assert check(load(path, tmp_path / "weights.pb")).findings == ()


def test_an_init_net_without_operators_is_empty(tmp_path: Path) -> None:
    save(Model.of(NET), tmp_path)
    (finding,) = check(load(tmp_path)).findings
    assert "the init net init_net.pb is empty" in finding.reason


def test_the_summary_says_that_values_are_missing() -> None:
    assert check(NET).summary() == "2 operators convert; covered, without the values of its parameters"
    assert check(NET, INIT).summary() == "2 operators convert; covered"


def test_parameters_that_are_described_are_inputs_on_purpose() -> None:
    described = {"u": ("float32", [4, 2]), "c": ("float32", [4])}
    init = fills({"w": np.ones((2, 3, 3, 3)), "b": np.ones(2)})
    assert warnings(NET, init, inputs=described) == []


def test_an_init_net_that_computes_the_data_leaves_it_settable() -> None:
    init = NetDef()
    init.CopyFrom(INIT)
    init.op.append(operator("GaussianFill", [], ["seed"], shape=[1, 3, 3, 3]))
    init.op.append(operator("Relu", ["seed"], ["data"]))
    (warning,) = warnings(NET, init)
    assert "the model has no inputs: the init net writes 'data' and everything else that the net reads" in warning
    assert "--input 'data=float32'" in warning
    inputs = {"data": ("float32", None)}
    assert warnings(NET, init, inputs=inputs) == []
    (data,) = to_onnx(NET, init, inputs=inputs).graph.input
    assert [dim.dim_value for dim in data.type.tensor_type.shape.dim] == [0, 3, 0, 0]


def test_loaded_models_convert_with_the_warning(tmp_path: Path) -> None:
    (tmp_path / "predict_net.pb").write_bytes(NET.SerializeToString())
    assert len(convert(load(tmp_path)).graph.inputs) == 5
