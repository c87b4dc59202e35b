"""Folding to a fixed point: what constants, shapes and selected branches determine becomes an argument."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from support.strict_import import comparison

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge import ConversionError

# The pads of PyTorch's F.pad(x, (1, 2, 0, 1)), as its exporter writes them: given ones first, a fill of zeros after.
PADS = """
    given = Constant <value_ints = [1, 2, 0, 1]> ()
    rank = Constant <value = int64 {4}> ()
    number = Size (given)
    doubled = Mul (rank, two)
    missing = Sub (doubled, number)
    places = Unsqueeze (missing, zero)
    zeros = ConstantOfShape <value = int64[1] {0}> (places)
    all = Concat <axis = 0> (given, zeros)
    pairs = Reshape (all, rows)
    reversed = Slice (pairs, last, first, zero, last)
    columns = Transpose <perm = [1, 0]> (reversed)
    flat = Reshape (columns, last)
    pads = Cast <to = 7> (flat)
    y = Pad (x, pads)
"""
PAD_WEIGHTS = (
    "<int64 two = {2}, int64[1] zero = {0}, int64[2] rows = {-1, 2}, int64[1] last = {-1}, "
    "int64[1] first = {-9223372036854775807}>"
)
# The ranks of the branches differ; which one is taken follows from a rank that is known.
RANKS = """
    s = Shape (x)
    rank = Size (s)
    flat = Equal (rank, two)
    batched = Not (flat)
    u = If (batched) <
        then_branch = grow () => (float[A,B,C] a) { a = Identity (x) },
        else_branch = keep () => (float[1,A,B] b) { b = Unsqueeze (x, zero) }
    >
    s2 = Shape (u)
    rank2 = Size (s2)
    deep = Equal (rank2, three)
    y = If (deep) <
        then_branch = three_dims () => (float[N,C] c) { c = ReduceSum <keepdims = 0> (u, one) },
        else_branch = other () => (float[N] d) { d = ReduceSum <keepdims = 0> (u, zero) }
    >
"""
RANK_WEIGHTS = "<int64 two = {2}, int64 three = {3}, int64[1] zero = {0}, int64[1] one = {1}>"


def model_of(inputs: str, outputs: str, body: str, head: str) -> onnx.ModelProto:
    return parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 17]> g ({inputs}) => ({outputs}) {head} {{ {body} }}'
    )


def types_of(model: onnx.ModelProto) -> list[str]:
    return [op.type for op in to_netdef(model).predict_net.op]


def check(model: onnx.ModelProto, feed: dict[str, Any]) -> None:
    expected = OnnxSession(model.SerializeToString()).run_values(feed)
    for wanted, value in zip(expected, Predictor(to_netdef(model)).run(feed).values(), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-6)


def test_pads_that_a_fill_completes_are_arguments() -> None:
    model = model_of("float[2,3,4,5] x", "float[A,B,C,D] y", PADS, PAD_WEIGHTS)
    assert not {"Slice", "Reshape", "Cast"} & set(types_of(model))  # by which the net would compute the pads
    assert len(types_of(model)) == 5
    check(model, {"x": np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)})


def test_branches_that_a_folded_branch_decides() -> None:
    model = model_of("float[A,B] x", "float[N,C] y", RANKS, RANK_WEIGHTS)
    assert "If" not in types_of(model)
    check(model, {"x": np.arange(6, dtype=np.float32).reshape(2, 3)})


def test_the_number_of_elements_of_known_dims() -> None:
    body = "n = Size (x) l = Unsqueeze (n, zero) y = Reshape (z, l)"
    model = model_of("float[2,3] x, float[A,B,C] z", "float[D] y", body, "<int64[1] zero = {0}>")
    assert types_of(model) == ["Reshape"]
    check(model, {"x": np.zeros((2, 3), np.float32), "z": np.arange(6, dtype=np.float32).reshape(1, 3, 2)})


def test_a_large_fill_is_computed_when_the_net_runs() -> None:
    model = model_of("float x", "float[A,B] y", "f = ConstantOfShape (d) y = Add (f, x)", "<int64[2] d = {100, 1000}>")
    net = to_netdef(model)
    assert [op.type for op in net.predict_net.op] == ["ConstantFill", "Add"]
    assert all(array.size < 10 for array in net.params.values())


def test_a_fill_of_negative_dims_is_refused() -> None:
    model = model_of("float x", "float[A] y", "f = ConstantOfShape (d) y = Add (f, x)", "<int64[1] d = {-1}>")
    with pytest.raises(ConversionError, match=r"g\[0\] ConstantOfShape"):
        to_netdef(model)


def test_random_fills_are_not_folded() -> None:
    body = "f = ConstantOfShape (d) r = RandomNormalLike (f) y = Add (r, x)"
    model = model_of("float x", "float[A] y", body, "<int64[1] d = {3}>")
    assert to_netdef(model, foreign="carry").predict_net.op[1].type == "GaussianFill"


@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    x = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    with comparison() as check:
        check("float[2,3,4,5] x", "float[A,B,C,D] y", PADS, [{"x": x}], head=PAD_WEIGHTS)
        check("float[A,B] x", "float[N,C] y", RANKS, [{"x": x[0, 0]}, {"x": x[0, :1, 0]}], head=RANK_WEIGHTS)


def test_what_is_too_large_to_be_stored_is_not_computed() -> None:
    # 3 TB: the model is malformed, so that ONNX infers no size
    text = """
        <ir_version: 9, opset_import: ["" : 20]> g (float[2] x) => (float[A,B] y)
        <int64[2] shape = {1099511627776, 3}, float[2] two = {1.0, 2.0}> { e = Expand (two, shape)  y = Add (e, x) }
    """
    with pytest.raises(ConversionError) as raised:
        to_netdef(parser.parse_model(text))
    assert {found.code for found in raised.value.errors} != {"internal-error"}


@pytest.mark.parametrize(
    ("split", "dim"), [("int64 n = {2}", "1073741824"), ("int64 n = {2}", "32770"), ("int64[1] n = {2}", "1073741824")]
)
def test_a_sequence_of_very_many_parts_is_not_split(split: str, dim: str) -> None:
    text = f"""
        <ir_version: 9, opset_import: ["" : 20]> g (float[5, {dim}] x) => (float[A, B] y)
        <{split}, int64 i = {{1}}> {{ s = SplitToSequence <axis = 1> (x, n)  y = SequenceAt (s, i) }}
    """
    with pytest.raises(ConversionError) as raised:
        to_netdef(parser.parse_model(text))
    assert {found.code for found in raised.value.errors} != {"internal-error"}
