from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from support.paths import CHAR_RNN

from caffe2_backend import NetFormatError, Predictor
from caffe2_backend.runtime import DeviceTensor, Int8Tensor, SessionOptions
from caffe2_backend.runtime.values import NoBlobError
from caffe2_bridge import RunError
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA, NetDef
from caffe2_frontend import to_onnx

INIT = NetDef(name="init", op=[operator("GivenTensorFill", [], ["w"], shape=[2], values=[2.0, 3.0])])
NET = NetDef(name="p", op=[operator("Mul", ["x", "w"], ["y"])], external_input=["x", "w"], external_output=["y"])
X = np.ones((3, 2), np.float32)


def char_rnn_case(side: str) -> dict[str, Any]:
    with np.load(CHAR_RNN / "cases.npz", allow_pickle=False) as cases:
        return {key.split("/", 2)[2]: cases[key] for key in cases.files if key.startswith(f"0/{side}/")}


def test_char_rnn() -> None:
    results = Predictor(str(CHAR_RNN)).run(char_rnn_case("in"))
    for name, expected in char_rnn_case("out").items():
        np.testing.assert_allclose(results[name], expected, rtol=1e-3, atol=1e-4)


def test_an_onnx_model_runs_too(tmp_path: Path) -> None:
    model = to_onnx(NET, INIT, inputs={"x": ("float32", [None, 2])})
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    for given in (model, model.SerializeToString(), path, str(path)):
        predictor = Predictor(given)
        assert predictor.run({"x": X})["y"].tolist() == [[2, 3]] * 3
        assert (predictor.inputs, predictor.outputs) == (("x",), ("y",))
        with pytest.raises(NoBlobError, match="input 'x' is not given"):
            predictor.run({})
        with pytest.raises(RunError, match="input 'other' does not exist: the model has the inputs 'x'"):
            predictor.run({"x": X, "other": X})


def test_a_parameter_that_is_given_is_used() -> None:
    predictor = Predictor(Model.of(NET, INIT))
    assert predictor.run({"x": X})["y"].tolist() == [[2, 3]] * 3
    assert predictor.run({"x": X, "w": np.zeros(2, np.float32)})["y"].tolist() == [[0, 0]] * 3
    assert predictor.run({"x": X})["y"].tolist() == [[2, 3]] * 3


def test_a_blob_that_the_init_net_computes_is_replaced_too() -> None:
    init = NetDef(op=[operator("ConstantFill", [], ["c"], shape=[2], value=0.0), operator("Cos", ["c"], ["w"])])
    predictor = Predictor(Model.of(NET, init))
    for _ in range(2):
        assert predictor.run({"x": X})["y"].tolist() == [[1, 1]] * 3
        assert predictor.run({"x": X, "w": np.zeros(2, np.float32)})["y"].tolist() == [[0, 0]] * 3
    read = NetDef(op=[*init.op, operator("Sin", ["w"], ["s"])])
    with pytest.raises(RunError, match="input 'w' does not exist"):  # the init net reads it, before the run
        Predictor(Model.of(NET, read)).run({"x": X, "w": np.zeros(2, np.float32)})


def test_names_that_do_not_exist() -> None:
    names = ["hidden_init", "seq_lengths", "cell_init"]
    net = NetDef(op=[operator("Sum", [*names, "weights"], ["y"])], external_input=[*names, "weights"])
    init = NetDef(op=[operator("ConstantFill", [], ["weights"], shape=[2])])
    predictor = Predictor(Model.of(net, init))
    given = dict.fromkeys(names, np.zeros(2, np.float32))
    for _ in range(2):  # the second time in the fast path
        assert predictor.run(given)["y"].tolist() == [0, 0]
        for more, listed in [
            ({"hiden_init": X}, "'hidden_init', 'cell_init', 'seq_lengths'$"),
            ({"Cell_Init": X}, "'cell_init', 'hidden_init', 'seq_lengths'$"),
            ({"weight": X}, "'weights', "),
            ({"y": X}, "the inputs 'cell_init'|'seq_lengths'|'hidden_init'"),
        ]:
            with pytest.raises(RunError, match=f"input {next(iter(more))!r} does not exist: the model has .*{listed}"):
                predictor.run(given | more)
            with pytest.raises(RunError, match=f"input {next(iter(more))!r} does not exist: the model has .*{listed}"):
                list(predictor.run_many([given, given | more]))
    with pytest.raises(RunError, match="inputs 'a', 'b' do not exist"):
        predictor.run({"a": X, "b": X})


def test_a_missing_input_is_named() -> None:
    with pytest.raises(RunError, match="input 'x' is not given"):
        Predictor(Model.of(NET, INIT)).run({"w": X})


@pytest.mark.parametrize("inputs", [[X], (X,), X, None])
def test_inputs_that_have_no_names(inputs: Any) -> None:
    for predictor in (Predictor(Model.of(NET, INIT)), Predictor(to_onnx(NET, INIT, inputs={"x": ("float32", [3, 2])}))):
        with pytest.raises(
            RunError, match=r"mapping from names to arrays, such as \{'x': array\}, not .*inputs x: float"
        ):
            predictor.run(inputs)
        with pytest.raises(RunError, match="mapping from names to arrays"):
            next(predictor.run_many([inputs]))


def test_big_endian_and_strided_arrays() -> None:
    predictor = Predictor(Model.of(NET, INIT))
    expected = predictor.run({"x": np.arange(6, dtype=np.float32).reshape(2, 3).T})["y"]
    assert expected.tolist() == [[0, 9], [2, 12], [4, 15]]
    assert predictor.run({"x": np.arange(2, dtype=">f4")})["y"].tolist() == [0, 3]


def test_int8_in_and_out() -> None:
    op = operator("Int8Relu", ["x"], ["y"], Y_scale=0.5, Y_zero_point=10)
    net = NetDef(name="q", op=[op], external_input=["x"], external_output=["y"])
    result = Predictor(Model.of(net)).run({"x": Int8Tensor(np.array([0, 10, 20], np.uint8), 0.5, 10)})["y"]
    assert isinstance(result, Int8Tensor)
    assert result.data.tolist() == [10, 10, 20]


def test_a_random_net_draws_every_time() -> None:
    op = operator("UniformFill", ["shape"], ["y"], input_as_shape=1)
    net = NetDef(name="r", op=[op], external_input=["shape"], external_output=["y"])
    predictor = Predictor(Model.of(net))
    shape = {"shape": np.array([8], np.int64)}
    assert predictor.run(shape)["y"].tolist() != predictor.run(shape)["y"].tolist()


def test_device_options_ignored_with_a_warning() -> None:
    net = NetDef()
    net.CopyFrom(NET)
    net.op[0].device_option.device_type = PROTO_CUDA
    with pytest.warns(RuntimeWarning, match="device options are ignored"):
        predictor = Predictor(Model.of(net, INIT), "cpu")
    assert predictor.run({"x": X})["y"].tolist() == [[2, 3]] * 3


def test_a_whole_model_on_a_device() -> None:
    predictor = Predictor(Model.of(NET, INIT), "cuda", options=SessionOptions(stand_in={"cuda:0": "cpu"}))
    result = predictor.run({"x": X}, on_device=True)["y"]
    assert isinstance(result, DeviceTensor)
    assert result.device == "cuda:0"
    assert np.from_dlpack(result).tolist() == [[2, 3]] * 3
    again = predictor.run({"x": result})["y"]
    assert again.tolist() == [[4, 9]] * 3


@pytest.mark.torch
def test_torch_tensors() -> None:
    import torch

    predictor = Predictor(Model.of(NET, INIT))
    given = torch.ones(3, 2, requires_grad=True)
    assert predictor.run({"x": given})["y"].tolist() == [[2, 3]] * 3
    assert predictor.run({"x": torch.ones(2, 3).t()})["y"].shape == (3, 2)
    on_device = Predictor(Model.of(NET, INIT), "cuda", options=SessionOptions(stand_in={"cuda:0": "cpu"}))
    result = on_device.run({"x": given}, on_device=True)["y"]
    assert torch.from_dlpack(result).tolist() == [[2, 3]] * 3


def test_an_onnx_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"none\.onnx"):
        Predictor(tmp_path / "none.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"\xff\xff\xff")
    with pytest.raises(NetFormatError, match="not an ONNX model"):
        Predictor(str(tmp_path / "bad.onnx"))
