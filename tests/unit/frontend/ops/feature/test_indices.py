"""Indices: numbers of keys that are known at conversion; what is not known is refused with what to type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import dims, export, node_types, run

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import check, to_onnx

LOAD, GET, FREEZE = (
    operator("IndexLoad", ["index", "vocab"], ["index"], skip_first_entry=1),
    operator("IndexGet", ["index", "vocab"], ["first"]),
    operator("IndexFreeze", ["index"], ["index"]),
)
ASK = operator("IndexGet", ["index", "keys"], ["ids"])


def texts(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, object)


def init(*ops: OperatorDef, words: Sequence[str] = ("<unk>", "é", "a")) -> NetDef:
    fill = operator("GivenTensorStringFill", [], ["vocab"], shape=[len(words)], values=words)
    return NetDef(op=[fill, operator("StringIndexCreate", [], ["index"]), *ops])


def refusal(init_net: NetDef | None, *ops: OperatorDef) -> ConversionError:
    with pytest.raises(ConversionError) as caught:
        export([*ops, ASK], {"keys": ("string", ("N",))}, init_net)
    return caught.value


def test_a_frozen_index_is_a_label_encoder() -> None:
    model = export([ASK], {"keys": ("string", ("N", 2))}, init(LOAD, FREEZE))
    assert [*node_types(model.graph)] == ["LabelEncoder"]
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 20, "ai.onnx.ml": 2}
    assert dims(model) == ["N", 2]
    (ids,) = run(model, {"keys": texts(["a", "<unk>"], ["é", "b"])})
    np.testing.assert_array_equal(ids, np.array([[2, 0], [1, 0]]))


def test_keys_are_numbered_in_the_init_net_though_nothing_reads_their_numbers() -> None:
    model = export([ASK], {"keys": ("string", ("N",))}, init(GET, FREEZE))
    (ids,) = run(model, {"keys": texts("a", "<unk>", "b")})
    np.testing.assert_array_equal(ids, [3, 1, 0])


def test_keys_are_numbered_in_the_net_where_the_caller_chooses_another_output() -> None:
    net = NetDef(op=[*init(GET, FREEZE).op, ASK], external_input=["keys"])
    model = to_onnx(net, inputs={"keys": ("string", ("N",))}, outputs=["ids"])
    (ids,) = run(model, {"keys": texts("a", "b")})
    np.testing.assert_array_equal(ids, [3, 0])


def test_the_type_of_the_keys_follows_from_the_index() -> None:
    for kind, dtype in (("String", "string"), ("Long", "int64"), ("Int", "int32")):
        made = NetDef(op=[operator(f"{kind}IndexCreate", [], ["index"]), FREEZE])
        flat = operator("FlattenToVec", ["words"], ["keys"])
        (finding,) = check(NetDef(op=[flat, ASK]), made).findings
        assert f"words={dtype}[N,D]" in finding.hint, kind


def test_the_numbers_of_known_keys_are_constants() -> None:
    fill = operator("GivenTensorStringFill", [], ["keys"], shape=[2], values=["a", "z"])
    sizes = [operator("IndexSize", ["index"], ["size"]), operator("IndexStore", ["index"], ["stored"])]
    net = NetDef(op=[fill, ASK, *sizes], external_output=["ids", "size", "stored"])
    ids, size, stored = run(to_onnx(net, init(LOAD)), {})
    np.testing.assert_array_equal(ids, [2, 3])
    assert (size, stored.tolist()) == (4, ["é", "a", "z"])


def test_new_keys_of_a_run_need_a_frozen_index() -> None:
    (finding,) = refusal(init(LOAD)).findings
    assert "is not frozen" in finding.reason
    assert "IndexFreeze" in finding.hint
    assert "'ids' is an input" in finding.hint


def test_keys_that_the_net_computes_do_not_fill_an_index() -> None:
    load = operator("IndexLoad", ["index", "keys"], ["index"])
    (finding,) = refusal(init(), load).findings
    assert "'keys' of index 'index' are computed as the model runs" in finding.reason


def test_an_index_that_no_net_creates_is_refused() -> None:
    found = refusal(None).findings
    assert any("must be an index" in each.reason and "--init" in each.hint for each in found)


def test_keys_of_another_type_are_refused() -> None:
    with pytest.raises(ConversionError, match="keys must be STRING, not INT64"):
        export([ASK], {"keys": ("int64", ("N",))}, init(LOAD, FREEZE))


def test_an_index_is_not_changed_in_a_branch() -> None:
    branch = operator("If", ["condition"], ["ids"], then_net=NetDef(op=[FREEZE, ASK], external_output=["ids"]))
    inputs = {"condition": ("bool", ()), "keys": ("string", ("N",))}
    with pytest.raises(ConversionError, match="changed in a body"):
        export([branch], inputs, init(LOAD))


@pytest.mark.parametrize("target", ["opencv", "tract", "tensorrt", "coreml", "openvino"])
def test_targets_without_strings_say_so(target: str) -> None:
    with pytest.raises(ConversionError, match=target):
        to_onnx(NetDef(op=[ASK]), init(LOAD, FREEZE), inputs={"keys": ("string", ("N",))}, target=target)
