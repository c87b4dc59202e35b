"""Nodes that converters fail on: ONNX's own reason, where it refuses them, and no internal error."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import pytest
from onnx import TensorProto, helper  # noqa: TID251 - malformed models, which onnx_ir does not build

from caffe2_backend import to_netdef
from caffe2_bridge import ConversionError

FLOAT = TensorProto.FLOAT


def _model(
    node: onnx.NodeProto,
    *inputs: tuple[str, int, list[int]],
    opset: int = 20,
    tensors: Sequence[onnx.TensorProto] = (),
    **constants: list[int],
) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, dtype, dims) for name, dtype, dims in inputs]
    tensors = [*tensors, *(helper.make_tensor(name, TensorProto.INT64, [len(v)], v) for name, v in constants.items())]
    output = helper.make_tensor_value_info("y", FLOAT, None)
    graph = helper.make_graph([node], "g", infos, [output], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


CASES = {
    "Trilu of a scalar": _model(helper.make_node("Trilu", ["x"], ["y"]), ("x", FLOAT, [])),
    "SpaceToDepth of three dims": _model(
        helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2), ("x", FLOAT, [2, 4, 4])
    ),
    "MaxPool with strides of another rank": _model(
        helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[1, 1, 1], auto_pad="SAME_UPPER"),
        ("x", FLOAT, [1, 1, 4, 4]),
    ),
    "ReverseSequence along one axis": _model(
        helper.make_node("ReverseSequence", ["x", "n"], ["y"], batch_axis=1, time_axis=1),
        ("x", FLOAT, [2, 3]), ("n", TensorProto.INT64, [3]),
    ),
    "ReverseSequence with an axis out of range": _model(
        helper.make_node("ReverseSequence", ["x", "n"], ["y"], batch_axis=1, time_axis=9),
        ("x", FLOAT, [2, 3]), ("n", TensorProto.INT64, [3]),
    ),
    "ReverseSequence with an axis from the end": _model(
        helper.make_node("ReverseSequence", ["x", "n"], ["y"], batch_axis=1, time_axis=-2),
        ("x", FLOAT, [2, 3]), ("n", TensorProto.INT64, [3]),
    ),
    "CumSum of a scalar": _model(helper.make_node("CumSum", ["x", "a"], ["y"]), ("x", FLOAT, []), a=[0]),
    "GatherElements with indices of another rank": _model(
        helper.make_node("GatherElements", ["x", "i"], ["y"]), ("x", FLOAT, [2, 3]), ("i", TensorProto.INT64, [2])
    ),
    "GatherND of a scalar": _model(
        helper.make_node("GatherND", ["x", "i"], ["y"]), ("x", FLOAT, [2]), ("i", TensorProto.INT64, [])
    ),
    "Range of two steps": _model(
        helper.make_node("Range", ["x", "n", "d"], ["y"]), ("x", TensorProto.INT64, []), ("n", TensorProto.INT64, []),
        d=[1, 2],
    ),
    "ConstantOfShape of two values": _model(
        helper.make_node(
            "ConstantOfShape", ["x"], ["y"], value=helper.make_tensor("v", TensorProto.INT64, [2], [1, 2])
        ),
        ("x", TensorProto.INT64, [1]),
    ),
    "ConstantOfShape of no value": _model(
        helper.make_node("ConstantOfShape", ["x"], ["y"], value=helper.make_tensor("v", TensorProto.INT64, [0], [])),
        ("x", TensorProto.INT64, [1]),
    ),
    "TensorScatter of another rank": _model(
        helper.make_node("TensorScatter", ["x", "u", "i"], ["y"]), ("x", FLOAT, [2, 1, 4, 5]), ("u", FLOAT, [2]),
        i=[1, 3], opset=24,
    ),
    "Equal of a string and a number": _model(
        helper.make_node("Equal", ["x", "i"], ["y"]), ("x", TensorProto.STRING, [None]), i=[1]
    ),
    "TensorScatter into no items": _model(
        helper.make_node("TensorScatter", ["x", "u", "i"], ["y"]),
        ("x", FLOAT, [0, 1, 4, 5]), ("u", FLOAT, [2, 1, 2, 5]), i=[1, 3], opset=24,
    ),
    "NonMaxSuppression of scores of two dims": _model(
        helper.make_node("NonMaxSuppression", ["b", "s"], ["y"]), ("b", FLOAT, [1, 3, 4]), ("s", FLOAT, [3, 4])
    ),
    "DeformConv with offsets of another rank": _model(
        helper.make_node("DeformConv", ["x", "w", "o"], ["y"], kernel_shape=[2, 2]),
        ("x", FLOAT, [1, 1, 3, 3]), ("w", FLOAT, [1, 1, 2, 2]), ("o", FLOAT, [1, 8, 2]),
    ),
    "LSTM of a negative size": _model(
        helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=-63),
        ("x", FLOAT, [3, 1, 2]), ("w", FLOAT, [1, 28, 2]), ("r", FLOAT, [1, 28, 7]),
    ),
    "Cast to no element type": _model(helper.make_node("Cast", ["x"], ["y"], to=100), ("x", FLOAT, [2])),
    "a sequence of no element type": _model(helper.make_node("SequenceEmpty", [], ["y"], dtype=100)),
    "Slice from a matrix": _model(
        helper.make_node("Slice", ["x", "s", "s"], ["y"]), ("x", FLOAT, [4]),
        tensors=[helper.make_tensor("s", TensorProto.INT64, [1, 1], [1])],
    ),
    "Slice from floats": _model(
        helper.make_node("Slice", ["x", "s", "e"], ["y"]), ("x", FLOAT, [4]), ("s", FLOAT, [1]), e=[2]
    ),
    "Einsum of other characters": _model(
        helper.make_node("Einsum", ["x"], ["y"], equation="op {"), ("x", FLOAT, [3, 4])
    ),
    "LpPool of order 0": _model(
        helper.make_node("LpPool", ["x"], ["y"], kernel_shape=[2, 2], p=0), ("x", FLOAT, [1, 1, 4, 4])
    ),
    "LpNormalization of order 3": _model(
        helper.make_node("LpNormalization", ["x"], ["y"], p=3), ("x", FLOAT, [1, 4])
    ),
    "AffineGrid of a million axes": _model(
        helper.make_node("AffineGrid", ["x", "n"], ["y"]), ("x", FLOAT, [1, 1 << 20, 3]), ("n", TensorProto.INT64, [4])
    ),
    "AffineGrid of no axes": _model(
        helper.make_node("AffineGrid", ["x", "n"], ["y"]), ("x", FLOAT, [1, 0, 1]), ("n", TensorProto.INT64, [2])
    ),
    "Expand to a million axes": _model(
        helper.make_node("Expand", ["x", "n"], ["y"]), ("x", FLOAT, [1]), ("n", TensorProto.INT64, [1 << 20])
    ),
    "Pad of a scalar by the pads of a matrix": _model(
        helper.make_node("Pad", ["x", "p"], ["y"]), ("x", FLOAT, []), p=[0, 1, 0, 1]
    ),
    "Pad along more axes than a tensor has": _model(
        helper.make_node("Pad", ["x", "p", "", "a"], ["y"]),
        ("x", FLOAT, []), ("a", TensorProto.INT64, [2**63 - 1]), p=[0, 3],
    ),
    "Pad that repeats no elements": _model(
        helper.make_node("Pad", ["x", "p"], ["y"], mode="edge"), ("x", FLOAT, [0]), p=[1, 1]
    ),
    "Slice with starts of another number": _model(
        helper.make_node("Slice", ["x", "s", "e"], ["y"]), ("x", FLOAT, []), s=[0, 0], e=[1]
    ),
    "Slice with steps of another number": _model(
        helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"]),
        ("x", FLOAT, [4, 4]), ("s", TensorProto.INT64, [2]), ("e", TensorProto.INT64, [2]), a=[0, 1], t=[1],
    ),
    "Pad by two numbers": _model(
        helper.make_node("Pad", ["x", "p", "c"], ["y"]), ("x", TensorProto.INT64, [2]), p=[1, 1], c=[1, 2]
    ),
    "CumSum along two axes": _model(helper.make_node("CumSum", ["x", "a"], ["y"]), ("x", FLOAT, [2, 2]), a=[0, 1]),
    "RNN of one direction with the weights of none": _model(
        helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=4),
        ("x", FLOAT, [1, 3, 2]), ("w", FLOAT, [0, 4, 2]), ("r", FLOAT, [1, 4, 4]),
    ),
    "Conv with strides of another number": _model(
        helper.make_node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2]),
        ("x", FLOAT, []), ("w", FLOAT, [1, 1, 3, 3]),
    ),
    "BitShift of strings": _model(
        helper.make_node("BitShift", ["x", "n"], ["y"], direction="LEFT"),
        ("x", TensorProto.STRING, [2]), ("n", TensorProto.STRING, [2]),
    ),
    "Split into other pieces": _model(
        helper.make_node("Split", ["x", "n"], ["y"]), ("x", FLOAT, [4]), n=[2, 2]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("debug", [True, False])
def test_malformed_nodes_are_refused(name: str, debug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not debug:
        monkeypatch.delenv("CAFFE2_BRIDGE_VERIFY", raising=False)
    with pytest.raises(ConversionError) as raised:
        to_netdef(CASES[name])
    (found,) = raised.value.errors
    assert found.code in {"malformed-model", "invalid-operands", "invalid-argument", "needs-shape"}
    assert found.location.index == 0


def test_a_fill_of_another_type_than_its_result() -> None:
    fill = helper.make_node("ConstantOfShape", ["x"], ["y"], value=helper.make_tensor("v", FLOAT, [1], [float("-inf")]))
    model = _model(fill, ("x", TensorProto.INT64, [2]))
    to_netdef(model)
    model.graph.value_info.append(helper.make_tensor_value_info("y", TensorProto.INT64, None))
    model.graph.input[0].ClearField("type")
    del model.graph.output[:]
    with pytest.raises(ConversionError, match="value is of type float32, and the result of INT64"):
        to_netdef(model)
