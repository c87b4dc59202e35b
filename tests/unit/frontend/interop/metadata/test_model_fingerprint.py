"""What ``model_fingerprint`` returns differs after each change that it promises to tell, and after no other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
from onnx import parser

from caffe2_frontend.interop.metadata.model_fingerprint import model_fingerprint

TEXT = """<ir_version: 8, opset_import: ["": 18]> g (float[N,3] x) => (float[N,3] y)
  <float[3] s = {1, 2, 3}> { a = Add(x, s) y = LeakyRelu<alpha = 0.5>(a) }"""
FLOATS = ir.TensorType(ir.DataType.FLOAT)


def make() -> ir.Model:
    return ir.from_proto(parser.parse_model(TEXT))


def changed(model: ir.Model, change: Callable[[ir.Model], object]) -> bool:
    before = model_fingerprint(model)
    change(model)
    return model_fingerprint(model) != before


def typed(kind: ir.TypeProtocol | None) -> Callable[[ir.Model], None]:
    return lambda model: setattr(model.graph.inputs[0], "type", kind)


def shaped(*dims: int | str | None) -> Callable[[ir.Model], None]:
    return lambda model: setattr(model.graph.inputs[0], "shape", ir.Shape(dims))


@pytest.mark.parametrize(
    "change",
    [
        shaped("N", 4),
        shaped("M", 3),
        shaped(None, 3),
        lambda model: setattr(model.graph.inputs[0], "shape", None),
        typed(None),
        typed(ir.TensorType(ir.DataType.DOUBLE)),
        typed(ir.SequenceType(FLOATS)),
        lambda model: setattr(model.graph.inputs[0], "name", "z"),
        lambda model: setattr(model.graph.initializers["s"], "const_value", ir.Tensor(np.zeros(3, np.float32))),
        lambda model: setattr(model.graph[0], "op_type", "Sub"),
        lambda model: model.graph[1].replace_input_with(0, model.graph.inputs[0]),
        lambda model: model.graph[1].attributes.add(ir.AttrFloat32("alpha", 0.25)),
        lambda model: model.graph[0].metadata_props.update(caffe2="place"),
    ],
)
def test_a_change_is_told(change: Callable[[ir.Model], object]) -> None:
    assert changed(make(), change)


def test_kinds_of_sequences_are_told_apart() -> None:
    model = make()
    typed(ir.SequenceType(FLOATS))(model)
    assert changed(model, typed(ir.OptionalType(FLOATS)))
    assert changed(model, typed(ir.OptionalType(ir.SequenceType(FLOATS))))
    assert changed(model, typed(ir.OptionalType(ir.SequenceType(ir.TensorType(ir.DataType.DOUBLE)))))


def test_an_equal_shape_and_the_order_of_initializers_are_no_change() -> None:
    model = make()
    model.graph.register_initializer(ir.Value(name="t", const_value=ir.Tensor(np.zeros(1, np.float32), name="t")))

    def reorder(model: ir.Model) -> None:
        model.graph.initializers["s"] = model.graph.initializers.pop("s")

    assert not changed(model, shaped("N", 3))
    assert not changed(model, reorder)
    assert list(model.graph.initializers) == ["t", "s"]
