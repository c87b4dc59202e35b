from __future__ import annotations

import array

import numpy as np
import pytest

from caffe2_backend import Predictor
from caffe2_backend.runtime.blobs.feeding import as_value
from caffe2_backend.runtime.devices.device_names import device_name, names_devices, names_gpu, operator_device
from caffe2_backend.runtime.values import Int8Tensor, string_bytes, to_host
from caffe2_bridge import Model, RunError
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA, PROTO_IDEEP, NetDef, OperatorDef
from caffe2_frontend import to_onnx


def test_numbers_and_lists() -> None:
    for given, dtype, shape in ((1.5, np.float64, ()), ([1, 2], np.int64, (2,)), (True, np.bool_, ())):
        value = as_value("x", given, copy=True)
        assert isinstance(value, np.ndarray)
        assert (value.dtype, value.shape) == (np.dtype(dtype), shape)


def test_layouts_become_plain() -> None:
    strided = np.arange(6, dtype=">i4").reshape(2, 3).T
    value = as_value("x", strided, copy=False)
    assert isinstance(value, np.ndarray)
    assert value.dtype.isnative
    assert value.flags.c_contiguous
    np.testing.assert_array_equal(value, strided)


def test_masked_elements_are_refused() -> None:
    masked = np.ma.masked_array(np.ones(2, np.float32), mask=[False, True])
    with pytest.raises(RunError, match=r"blob 'x': a tensor has no masked elements: fill them"):
        as_value("x", masked, copy=False)
    assert type(as_value("x", np.ma.masked_array(np.ones(2, np.float32)), copy=False)) is np.ndarray
    relu = Model.of(NetDef(op=[OperatorDef(type="Relu", input=["x"], output=["y"])], external_input=["x"]))
    for predictor in (Predictor(relu), Predictor(to_onnx(relu, inputs={"x": ("float32", [2])}))):
        with pytest.raises(RunError, match="masked elements"):
            predictor.run({"x": masked})


def test_scalars_keep_their_rank() -> None:
    value = as_value("x", np.float32(3), copy=True)
    assert isinstance(value, np.ndarray)
    assert value.shape == ()


def test_copies_only_where_asked() -> None:
    given = np.zeros(3, np.float32)
    assert as_value("x", given, copy=False) is given or np.shares_memory(as_value("x", given, copy=False), given)  # type: ignore[arg-type] # an array
    assert not np.shares_memory(as_value("x", given, copy=True), given)  # type: ignore[arg-type] # an array


class Held:
    """What shows an array of its own to NumPy."""

    def __init__(self) -> None:
        self.array = np.zeros(3, np.float32)

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:  # type: ignore[type-arg] # any array
        return self.array


def test_memory_of_other_objects_is_copied_too() -> None:
    buffer, held = array.array("f", [1, 2]), Held()
    values = [as_value("x", given, copy=True) for given in (buffer, held)]
    buffer[0] = held.array[0] = 9
    assert [np.asarray(value).tolist() for value in values] == [[1, 2], [0, 0, 0]]


@pytest.mark.parametrize(
    "given",
    [
        [[1], [2, 3]],
        np.ones(2, np.longdouble),
        Int8Tensor(np.zeros(2, np.float32), 0.5, 3),
        Int8Tensor(np.zeros(2, np.uint8), None, 3),  # type: ignore[arg-type] # what a caller may pass
        Int8Tensor(np.zeros(2, np.uint8), 0.5, 3.7),  # type: ignore[arg-type] # what a caller may pass
    ],
)
def test_what_is_not_a_tensor(given: object) -> None:
    with pytest.raises(RunError, match="blob 'x'"):
        as_value("x", given, copy=True)


def test_int8_data_of_other_forms() -> None:
    value = as_value("x", Int8Tensor(bytearray(b"ab"), 0.5, 3), copy=True)  # type: ignore[arg-type] # what a caller may pass
    assert isinstance(value, Int8Tensor)
    assert value.data.tolist() == [97, 98]


def test_texts_are_bytes_outside() -> None:
    value = as_value("x", np.array([[b"a"], [b"b"]]), copy=True)
    assert isinstance(value, np.ndarray)
    assert value.tolist() == [["a"], ["b"]]
    assert string_bytes(value).tolist() == [[b"a"], [b"b"]]


def test_int8_is_its_integers_on_the_host() -> None:
    value = as_value("x", Int8Tensor(np.array([1], np.uint8), 0.5, 3), copy=True)
    assert isinstance(value, Int8Tensor)
    assert to_host(value).tolist() == [1]


@pytest.mark.torch
def test_views_of_torch_that_negate_what_they_show() -> None:
    import torch

    given = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert np.asarray(as_value("x", given, copy=True)).tolist() == [-2, 4]


@pytest.mark.torch
def test_torch_tensors_without_memory() -> None:
    import torch

    with pytest.raises(RunError, match="blob 'x'"):
        as_value("x", torch.empty(2, device="meta"), copy=True)


@pytest.mark.torch
def test_torch_tensors_of_the_host() -> None:
    import torch

    given = torch.arange(4, dtype=torch.int32)
    copied, shared = (as_value("x", given, copy=copy) for copy in (True, False))
    given[0] = 9
    assert isinstance(copied, np.ndarray)
    assert isinstance(shared, np.ndarray)
    assert copied.tolist() == [0, 1, 2, 3]
    assert shared.tolist() == [9, 1, 2, 3]
    with pytest.raises(RunError, match="blob 'x'"):
        as_value("x", torch.zeros(2, dtype=torch.complex64), copy=True)


def test_devices_by_name() -> None:
    assert [device_name(name) for name in ("cpu", "cuda", "cuda:3")] == ["cpu", "cuda:0", "cuda:3"]
    for wrong in ("gpu", "cuda:x", "CPU", ""):
        with pytest.raises(RunError, match="neither 'cpu' nor"):
            device_name(wrong)


def test_options_of_operators_and_nets() -> None:
    net = NetDef(op=[OperatorDef(type="Relu"), OperatorDef(type="Relu")])
    assert not names_devices(net)
    noted = NetDef(op=[OperatorDef(type="Sum")])
    noted.op[0].device_option.extra_info.append("is_auto_gen_sum_ops:1")
    assert not names_devices(noted)
    net.op[0].device_option.device_type = PROTO_IDEEP
    assert names_devices(net)
    assert not names_gpu(net)
    net.device_option.device_type = PROTO_CUDA
    net.device_option.device_id = 2
    assert names_gpu(net)
    assert [operator_device(op, net) for op in net.op] == ["cpu", "cuda:2"]
