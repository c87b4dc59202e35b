"""Graphs with the bodies inside them, and the values of their tensors, which must fit shape and type."""

from __future__ import annotations

import pytest
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from caffe2_backend.admission.payloads import check_payloads
from caffe2_backend.admission.scopes import scopes_of
from caffe2_bridge.bounds import MAX_BODIES
from caffe2_bridge.diagnostics import ConversionError


def nested(depth: int) -> ModelProto:
    graph = GraphProto(name="inner", node=[NodeProto(op_type="Neg")])
    for level in range(depth):
        body = AttributeProto(name="then_branch", type=AttributeProto.GRAPH, g=graph)
        graph = GraphProto(name=f"level{level}", node=[NodeProto(op_type="If", name=f"if{level}", attribute=[body])])
    return ModelProto(graph=graph)


def test_bodies_come_after_what_encloses_them() -> None:
    model = nested(2)
    model.functions.append(FunctionProto(domain="d", name="F", node=[NodeProto(op_type="Abs")]))
    outer, body, inner, function = scopes_of(model)
    assert [scope.depth for scope in (outer, body, inner, function)] == [0, 1, 2, 0]
    assert (inner.parent, inner.root, outer.root, inner.node) == (body, outer, None, 0)
    assert str(inner.at(0)) == "level1[0] If (if1) > then_branch[0] If (if0) > then_branch[0] Neg"


def test_deep_bodies_are_refused() -> None:
    assert len(scopes_of(nested(MAX_BODIES))) == MAX_BODIES + 1
    with pytest.raises(ConversionError, match=f"bodies must not be nested deeper than {MAX_BODIES}"):
        scopes_of(nested(MAX_BODIES + 1))


def tensor(dtype: int, dims: list[int], **fields: object) -> TensorProto:
    return TensorProto(name="w", data_type=dtype, dims=dims, **fields)  # type: ignore[arg-type] # fields by name


@pytest.mark.parametrize(
    "good",
    [
        tensor(TensorProto.FLOAT, [2], float_data=[1, 2]),
        tensor(TensorProto.COMPLEX64, [1], float_data=[1, 2]),
        tensor(TensorProto.FLOAT16, [2], int32_data=[1, 2]),
        tensor(TensorProto.INT4, [3], raw_data=b"ab"),
        tensor(TensorProto.UINT32, [1], uint64_data=[1]),
        tensor(TensorProto.FLOAT, [0, 5]),
        tensor(TensorProto.FLOAT, [7], data_location=TensorProto.EXTERNAL),
    ],
)
def test_values_that_fit(good: TensorProto) -> None:
    assert faults(good) == []


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (tensor(TensorProto.FLOAT, [2]), "has no values"),
        (tensor(TensorProto.FLOAT, [2], float_data=[1]), "has 1 elements in float_data, not 2"),
        (tensor(TensorProto.FLOAT, [2], raw_data=b"abcd"), "has 4 bytes, not 8"),
        (tensor(TensorProto.FLOAT, [1], int32_data=[1]), "must not have its values in int32_data"),
        (tensor(TensorProto.FLOAT, [1], float_data=[1], int64_data=[1]), "has values in float_data and int64_data"),
        (tensor(TensorProto.STRING, [1], raw_data=b"a"), "has strings as raw data"),
        (tensor(TensorProto.FLOAT, [1] * 100, float_data=[1]), "has 100 dims"),
        (tensor(TensorProto.FLOAT, [1], segment=TensorProto.Segment(begin=0, end=1)), "is a segment of a tensor"),
    ],
)
def test_values_that_do_not_fit(bad: TensorProto, reason: str) -> None:
    (fault,) = faults(bad)
    assert reason in fault
    assert "'w'" in fault


def faults(value: TensorProto) -> list[str]:
    (scope,) = scopes_of(ModelProto(graph=GraphProto(name="g", initializer=[value])))
    return [finding.reason for finding in check_payloads(scope)]
