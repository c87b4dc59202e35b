"""Parameters out of init nets and back, and exports in the mobile exporter's shape."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.oracle import OracleRun, run_oracle
from support.paths import DATA

from caffe2_bridge import BridgeError, ConversionError, Model
from caffe2_bridge.graph_edit import Int8Tensor, construct_init_net_from_params, export_mobile, get_params_from_init_net
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef, OperatorDef

GPU = DeviceOption(device_type=1, device_id=1)
PARAMS = {
    "float": np.float32([[1, 2.5], [np.inf, -3]]),
    "half": np.float16([1, 2.5]),
    "int32": np.int32([[7]]),
    "int64": np.int64([-(2**40), 3]),
    "int16": np.int16([3]),
    "int8": np.int8([-3]),
    "uint8": np.uint8([[0, 255]]),
    "bool": np.array([True, False]),
    "text": np.array([b"a", b"\xff\0"], object),
    "empty": np.zeros((0, 3), np.float32),
}
QUANTIZED = {
    "q": Int8Tensor(np.uint8([[1, 200]]), 0.5, 3),
    "qb": Int8Tensor(np.int32([-70000]), 0.25, 0),
}


def test_parameters_of_every_type_round_trip() -> None:
    devices = {"float": GPU, "half": GPU, "q": GPU}
    net = construct_init_net_from_params({**PARAMS, **QUANTIZED}, devices)
    params, options = get_params_from_init_net(net)
    for name, value in PARAMS.items():
        assert params[name].dtype == value.dtype, name
        np.testing.assert_array_equal(params[name], value)
        assert options[name] == devices.get(name, DeviceOption())
    for name, quantized in QUANTIZED.items():
        found = params[name]
        assert isinstance(found, Int8Tensor)
        assert (found.scale, found.zero_point) == (quantized.scale, quantized.zero_point)
        np.testing.assert_array_equal(found.data, quantized.data)


@pytest.mark.oracle
def test_real_caffe2_makes_the_same_parameters() -> None:
    net = construct_init_net_from_params(PARAMS)
    readable = [name for name in PARAMS if name != "half"]  # its python cannot fetch half floats
    (result,) = run_oracle([OracleRun(net, outputs=readable)])
    assert result.error == ""
    for name, value in result.outputs.items():
        if name == "text":
            assert [text.encode("latin-1") for text in value] == PARAMS[name].tolist()
            continue
        np.testing.assert_array_equal(value, PARAMS[name])


def test_what_is_copied_to_the_host_is_there() -> None:
    net = construct_init_net_from_params({"a": np.float32([1])}, {"a": GPU})
    net.op.append(OperatorDef(type="CopyGPUToCPU", input=["a"], output=["b"], device_option=GPU))
    _, options = get_params_from_init_net(net)
    assert (options["a"], options["b"]) == (GPU, DeviceOption())


def test_random_fills_are_the_same_each_time_and_what_is_no_constant_is_refused() -> None:
    fill = OperatorDef(type="XavierFill", output=["w"])
    fill.arg.add(name="shape", ints=[3, 4])
    net = NetDef(op=[fill])
    np.testing.assert_array_equal(get_params_from_init_net(net)[0]["w"], get_params_from_init_net(net)[0]["w"])
    net.op.append(OperatorDef(type="Load", output=["v"]))
    net.op.append(OperatorDef(type="Tanh", input=["nothing"], output=["u"]))
    with pytest.raises(ConversionError) as error:
        get_params_from_init_net(net)
    assert {finding.location.index for finding in error.value.findings} == {1, 2}


def test_texts_and_types_that_caffe2_lacks() -> None:
    net = construct_init_net_from_params({"t": np.array(["é"])})
    assert get_params_from_init_net(net)[0]["t"].tolist() == ["é".encode()]
    with pytest.raises(BridgeError, match="complex64"):
        construct_init_net_from_params({"c": np.complex64([1])})
    with pytest.raises(BridgeError, match="float64 values beyond the range of float32"):
        construct_init_net_from_params({"d": np.array([1e-60])})


def test_exports_have_the_mobile_exporters_shape() -> None:
    net = NetDef(
        name="n",
        op=[
            OperatorDef(type="FC", input=["x", "w", "b"], output=["y"]),
            OperatorDef(type="Relu", input=["y"], output=["z"]),
        ],
        external_input=["w", "b", "x"],
    )
    params = {"w": np.ones((2, 3), np.float32), "b": np.zeros(2, np.float32)}
    init, predict = export_mobile(params, net, ["w", "b"])
    assert (list(predict.external_input), list(predict.external_output)) == (["x", "w", "b"], ["z"])
    assert [(op.type, op.output[0]) for op in init.op] == [("GivenTensorFill", name) for name in "wbx"]
    assert list(init.op[2].arg[0].ints) == [1, 1]
    assert list(init.op[2].arg[1].floats) == [0.0]
    model = Model.of(predict, init)
    assert (model.inputs, set(model.params)) == (("x",), {"w", "b"})
    found, _ = get_params_from_init_net(init, predict)
    assert found.keys() == {"w", "b"}
    assert list(net.external_input) == ["w", "b", "x"]

    class Workspace:
        def fetch(self, name: str) -> object:
            return params[name]

    assert export_mobile(Workspace(), net, ["w", "b"]) == (init, predict)
    with pytest.raises(BridgeError, match="parameter 'v' has no value"):
        export_mobile(params, net, ["v"])


IMPORTER = DATA / "importer"  # written by Caffe2's own ONNX importer; the values are those of real Caffe2


def test_init_nets_of_caffe2s_onnx_importer_are_evaluated() -> None:
    init = (IMPORTER / "init_net.pb").read_bytes()
    with np.load(IMPORTER / "values.npz") as values:
        expected = dict(values)
    declared = NetDef.FromString(init).external_output
    params, devices = get_params_from_init_net(init)
    assert len(declared) > 35
    assert params.keys() >= {*declared}
    assert devices.keys() == params.keys()
    for name, value in params.items():
        assert value.dtype == expected[name].dtype, name
        assert value.shape == expected[name].shape, name
        np.testing.assert_allclose(value, expected[name], rtol=3e-7, err_msg=name)


def test_only_declared_outputs_and_blobs_that_no_operator_reads_are_parameters() -> None:
    init = construct_init_net_from_params({"a": np.float32([1]), "b": np.float32([2]), "free": np.float32([3])})
    assert list(init.external_output) == ["a", "b", "free"]
    init.op.append(OperatorDef(type="Add", input=["a", "b"], output=["c"]))
    del init.external_output[:]
    assert get_params_from_init_net(init)[0].keys() == {"a", "b", "c", "free"}
    init.external_output.append("c")
    assert get_params_from_init_net(init)[0].keys() == {"c", "free"}
    predict = NetDef(op=[OperatorDef(type="Mul", input=["c", "a"], output=["y"])])
    assert get_params_from_init_net(init, predict)[0].keys() == {"a", "c", "free"}


def test_what_an_operator_cannot_compute_is_reported_once() -> None:
    init = construct_init_net_from_params({"a": np.float32([1, 2]), "i": np.int32([3])})
    for kind, inputs, output in (("Add", "a i", "b"), ("Relu", "b", "c"), ("Conv", "a a", "d"), ("Gather", "a i", "e")):
        init.op.append(OperatorDef(type=kind, input=inputs.split(), output=[output]))
    with pytest.raises(ConversionError) as error:
        get_params_from_init_net(init)
    assert [(finding.location.index, finding.code) for finding in error.value.findings] == [
        (2, "bad-fill"),
        (4, "not-a-constant"),
        (5, "bad-fill"),
    ]


def test_random_fills_and_devices_of_computed_blobs() -> None:
    fill = OperatorDef(type="XavierFill", output=["w"], device_option=GPU)
    fill.arg.add(name="shape", ints=[3, 4])
    init = NetDef(op=[fill, OperatorDef(type="Transpose", input=["w"], output=["t"], device_option=GPU)])
    init.op.append(OperatorDef(type="CopyGPUToCPU", input=["t"], output=["h"], device_option=GPU))
    params, devices = get_params_from_init_net(init)
    np.testing.assert_array_equal(params["h"], params["w"].T)
    assert (devices["t"], devices["h"]) == (GPU, DeviceOption())
