"""Nodes with which onnxruntime ends the process are refused, and so are arrays for their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper  # noqa: TID251 - malformed models, which onnx_ir does not build

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.admission import load_proto
from caffe2_bridge import BridgeError, ConversionError
from caffe2_frontend import to_onnx

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
MICROSOFT = "com.microsoft"


def model(
    node: onnx.NodeProto, shapes: Sequence[Sequence[Any]], *tensors: onnx.TensorProto, opset: int = 20
) -> onnx.ModelProto:
    names = list(dict.fromkeys(name for name in node.input if name))
    given = {tensor.name for tensor in tensors}
    infos = [
        helper.make_tensor_value_info(name, FLOAT, shape)
        for name, shape in zip((name for name in names if name not in given), shapes, strict=True)
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "g", infos, outputs, tensors)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def grouped(**attributes: int) -> onnx.NodeProto:
    given = {"num_heads": 4, "kv_num_heads": 2} | attributes
    return helper.make_node("GroupQueryAttention", ["q", "k", "v"], ["y"], domain=MICROSOFT, **given)


def blocks(size: int) -> onnx.NodeProto:
    return helper.make_node("DepthToSpace", ["x"], ["y"], blocksize=size)


IMAGE = [[1, 4, 2, 2]]
QKV = [["B", 1, 32], ["B", 1, 16], ["B", 1, 16]]
STEP = helper.make_tensor("step", INT64, [], [0])
REFUSED = {
    "no heads": model(grouped(num_heads=0), QKV),
    "heads of 33 bits": model(grouped(num_heads=1 << 32), QKV),
    "no heads of keys": model(grouped(kv_num_heads=0), QKV),
    "blocks of 33 bits": model(blocks(1 << 32), IMAGE),
    "no blocks": model(blocks(0), IMAGE),
    "negative group": model(helper.make_node("Conv", ["x", "w"], ["y"], group=-1), [[1, 4, 2, 2], [4, 4, 1, 1]]),
    "empty filter": model(helper.make_node("Conv", ["x", "w"], ["y"]), [[1, 0, 2, 2], [4, 0, 1, 1]]),
    "ratio of 33 bits": model(
        helper.make_node("RoiAlign", ["x", "r", "i"], ["y"], sampling_ratio=1 << 32),
        [[1, 4, 2, 2], [1, 4]], helper.make_tensor("i", INT64, [1], [0]),
    ),
    "crossed bounds": model(helper.make_node("RandomUniformLike", ["x"], ["y"], low=2.0), IMAGE),
    "a bound that is no number": model(helper.make_node("RandomUniformLike", ["x"], ["y"], high=float("nan")), IMAGE),
    "no deviation": model(helper.make_node("RandomNormalLike", ["x"], ["y"], scale=0.0), IMAGE),
    "negative deviation": model(helper.make_node("RandomNormal", [], ["y"], shape=[2], scale=-1.0), []),
    "n-grams without indexes": model(
        helper.make_node(
            "TfIdfVectorizer", ["x"], ["y"], mode="TF", max_gram_length=2, max_skip_count=0, min_gram_length=1,
            ngram_counts=[0, 4], ngram_indexes=[0, 1, 2, 3, 4, 5], pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
        ),
        [["N", 6]],
    ),
    "batch_dims": model(
        helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=-(1 << 63)),
        [[2, 2]], helper.make_tensor("i", INT64, [1, 1], [0]),
    ),
    "negative batch_dims": model(
        helper.make_node("GatherND", ["x", "i"], ["y"], batch_dims=-3),
        [[2, 2]], helper.make_tensor("i", INT64, [1], [0]),
    ),
    "no sequences": model(
        helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=1), [[1, 0, 1], [1, 4, 1], [1, 4, 1]]
    ),
    "no heads of packed attention": model(
        helper.make_node("Attention", ["x", "k", "v"], ["y"], q_num_heads=0, kv_num_heads=1), [[2, 4, 24]] * 3, opset=23
    ),
    "past keys of another rank": model(
        helper.make_node("Attention", ["x", "k", "v", "", "p", "q"], ["y", "a", "b"]),
        [[2, 3, 4, 8]] * 4 + [[6]], opset=23,
    ),
    "many sizes": model(
        helper.make_node("Resize", ["x", "", "", "s"], ["y"]), IMAGE, helper.make_tensor("s", INT64, [33], [1] * 33)
    ),
    "no matrix": model(helper.make_node("Inverse", ["x"], ["y"], domain=MICROSOFT), [[0, 0]]),
    "no frame step": model(helper.make_node("STFT", ["x", "step", "w"], ["y"]), [[1, 8, 1], [4]], STEP),
    "no attention": model(
        helper.make_node("AttnLSTM", ["x", "w", "r"], ["y"], domain=MICROSOFT, hidden_size=1),
        [[1, 1, 1], [1, 4, 2], [1, 4, 1]],
    ),
    "another kind of a machine learning attribute": model(
        helper.make_node("Normalizer", ["x"], ["y"], domain="ai.onnx.ml", norm=1), [[1, 4]]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_nodes_that_end_the_process(name: str) -> None:
    with pytest.raises(ConversionError) as raised:
        load_proto(REFUSED[name])
    assert {found.code for found in raised.value.errors} == {"malformed-model"}
    assert {found.location.index for found in raised.value.errors} == {0}


def test_nodes_that_do_not() -> None:
    for made in (
        model(grouped(), QKV),
        model(blocks(2), IMAGE),
        model(helper.make_node("Shape", ["x"], ["y"], end=(1 << 63) - 1), IMAGE),
        model(helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=1), [[0, 1, 1], [1, 4, 1], [1, 4, 1]]),
        model(helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=1), [[0, 0, 1], [1, 1, 1], [1, 1, 1]]),
        model(helper.make_node("Attention", ["x", "k", "v"], ["y"], q_num_heads=0), [[2, 3, 4, 8]] * 3, opset=23),
        model(helper.make_node("Constant", [], ["y"], value_int=1 << 40), []),
    ):
        load_proto(made)


@pytest.mark.parametrize(
    ("node", "shapes", "arrays"),
    [
        (helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=1), "[T,N,1] [1,4,1] [1,4,1]", [(3, 0, 1)]),
        (helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=1), "[T,N,1] [1,3,1] [1,3,1]", [(0, 2, 1)]),
        (helper.make_node("Inverse", ["x"], ["y"], domain=MICROSOFT), "[N,M]", [(0, 0)]),
        (
            helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], domain=MICROSOFT, num_heads=4),
            "[B,S,H] [B,S,H] [B,S,K]", [(1, 2, 8), (1, 2, 8), (1, 2, 0)],
        ),
    ],
    ids=lambda value: value.op_type if isinstance(value, onnx.NodeProto) else "",
)  # fmt: skip
def test_arrays_that_end_the_process(node: onnx.NodeProto, shapes: str, arrays: list[tuple[int, ...]]) -> None:
    dims = [[int(d) if d.isdigit() else d for d in text.strip("[]").split(",")] for text in shapes.split()]
    predictor = Predictor(model(node, dims))
    given = [*arrays, *([int(d) for d in shape] for shape in dims[len(arrays) :])]
    with pytest.raises(BridgeError, match="onnxruntime would end the process"):
        predictor.run({name: np.zeros(shape, np.float32) for name, shape in zip(node.input, given, strict=True)})


def test_onnx_nodes_of_nets() -> None:
    carried = to_netdef(model(blocks(2), IMAGE), foreign="carry")
    (block,) = [arg for op in carried.predict_net.op for arg in op.arg if arg.name == "blocksize"]
    to_onnx(carried)
    block.i = 1 << 32
    with pytest.raises(ConversionError, match="'blocksize' must be from 1 to 2147483647"):
        to_onnx(carried)
