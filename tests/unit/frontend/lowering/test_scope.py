"""Names, constants and scopes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.interop.constants import string_tensor
from caffe2_frontend.interop.names import Names
from caffe2_frontend.lowering.scope import Constants, Scope


def scope() -> Scope:
    names = Names(["blob"])
    return Scope(names, Constants(names), 20, outermost=True)


def test_names_are_given_once() -> None:
    names = Names(["blob"])
    assert names.fresh("a") == "a"
    assert [names.fresh("a") for _ in range(3)] == ["a_1", "a_2", "a_3"]
    assert names.fresh("a_2") == "a_2_1"
    assert names.fresh("blob") == "blob_1"
    assert names.claim("blob") == "blob"
    assert names.claim("blob") == "blob_2"


def test_a_fresh_name_is_no_blobs() -> None:
    names = Names(["x", "x_1"])
    assert names.fresh("x") == "x_2"
    assert names.claim("x_1") == "x_1"


def test_many_fresh_names_are_found_fast() -> None:
    names = Names()
    assert [names.fresh("y") for _ in range(20_000)][-1] == "y_19999"


def test_small_constants_are_shared_by_value_type_and_shape() -> None:
    constants = Constants(Names())
    first = constants.add(np.array([1, 2], np.int64))
    assert constants.add(np.array([1, 2], np.int64)) is first
    others = [np.array([1, 2], np.int32), np.array([[1, 2]], np.int64), np.array([1, 3], np.int64)]
    assert all(constants.add(other) is not first for other in others)
    large = np.zeros(1000, np.float32)
    assert constants.add(large) is not constants.add(large)
    assert len({value.name for value in constants.values}) == len(constants.values) == 6
    assert constants.add(np.array(0.0)) is not constants.add(np.array(-0.0))


def test_types_and_shapes_of_constants_are_shared() -> None:
    constants = Constants(Names())
    first, second = (constants.add_tensor(ir.Tensor(np.full((2, 3), value)), "w") for value in (1.0, 2.0))
    assert (first.type, first.shape) == (ir.TensorType(ir.DataType.DOUBLE), ir.Shape([2, 3]))
    assert first.type is second.type
    assert first.shape is second.shape
    assert constants.add(np.array(1.0)).shape == ir.Shape([])


def test_text_constants() -> None:
    tensor = string_tensor(np.array([["a", b"\xff"]], object))
    assert tensor.shape.numpy() == (1, 2)
    assert tensor.numpy().tolist() == [[b"a", b"\xff"]]
    constants = Constants(Names())
    value = constants.add(np.array(["x"]))
    assert value.dtype == ir.DataType.STRING


def test_bodies_see_what_is_around_them_and_keep_what_they_write() -> None:
    outer = scope()
    x, y = ir.Value(name="x"), ir.Value(name="y")
    outer.bind("blob", x)
    inner, sealed = outer.child(), outer.child(sealed=True)
    assert inner.find("blob") is x
    assert sealed.find("blob") is None
    inner.bind("blob", y)
    assert (inner.find("blob"), outer.find("blob")) == (y, x)
    assert inner.find("none") is None


def test_poison_lasts_until_the_blob_is_written() -> None:
    outer = scope()
    outer.bind("blob", ir.Value(name="x"))
    outer.poison("blob")
    inner = outer.child()
    assert inner.is_poisoned("blob")
    assert inner.is_known("blob")
    assert inner.find("blob") is None
    inner.bind("blob", ir.Value(name="y"))
    assert not inner.is_poisoned("blob")
    assert outer.is_poisoned("blob")
    outer.bind("blob", ir.Value(name="z"))
    assert not outer.is_poisoned("blob")


def test_what_is_no_tensor_is_known() -> None:
    outer = scope()
    outer.bind("workspaces", None)
    assert outer.child().is_opaque("workspaces")
    assert outer.child().is_known("workspaces")
    assert outer.child().find("workspaces") is None
    assert not outer.is_known("other")
    assert not outer.is_opaque("other")


def test_the_first_value_of_a_blob_has_its_name() -> None:
    outer = scope()
    nodes = [ir.Node("", "Relu", [ir.Value(name="x")], num_outputs=1) for _ in range(3)]
    for node in nodes:
        outer.append(node, "blob")
    values = [node.outputs[0] for node in nodes]
    assert [value.name for value in values] == ["blob/Relu", "blob/Relu_1", "blob/Relu_2"]
    outer.bind("blob", values[0])
    outer.bind("blob", values[1])
    outer.bind("other", values[0])
    assert [value.name for value in values] == ["blob", "blob_1", "blob/Relu_2"]
    inner = outer.child()
    inner.append(node := ir.Node("", "Relu", [values[0]], num_outputs=1), "blob")
    inner.bind("blob", node.outputs[0])
    assert node.outputs[0].name == "blob_2"
