from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conformance.__main__ import GOLDEN, make_tasks, select, unmatched
from conformance.check import declared
from conformance.corpus import Case, CaseRef, find_cases, read_case

from caffe2_bridge.proto.caffe2_pb2 import NetDef


def test_operator_file() -> None:
    refs = find_cases(GOLDEN / "ops" / "Relu.npz")
    assert {(ref.group, ref.kind, ref.gradients) for ref in refs} == {("Relu", "op", frozenset())}
    for ref in refs:
        case = read_case(ref)
        assert [op.type for op in case.net.op] == ["Relu"]
        assert list(case.net.external_input) == list(case.inputs)
        assert list(case.net.external_output) == list(case.outputs)
        (x,), (y,) = case.inputs.values(), case.outputs.values()
        np.testing.assert_array_equal(np.maximum(x, 0), y)


def test_model_folder() -> None:
    refs = find_cases(GOLDEN / "models" / "lstm")
    assert [(ref.id, ref.group, ref.kind) for ref in refs] == [(f"lstm/{i}", "lstm", "model") for i in range(3)]
    cases = [read_case(ref) for ref in refs]
    assert [case.inputs["input"].shape[:2] for case in cases] == [(5, 3), (9, 2), (1, 1)]
    assert all(case.init_net is not None for case in cases)
    assert next(iter(cases[0].outputs)) == "rnn/hidden_state_all"


def test_whole_corpus_leaves_refusals_out_and_marks_gradients() -> None:
    refs = find_cases(GOLDEN)
    assert not [ref for ref in refs if "errors" in ref.id]
    gradients = {ref.group for ref in refs if ref.gradients and ref.kind != "net"}
    assert {"FCGradient", "models/lstm_train"} <= gradients
    assert {"FC", "models/lstm"}.isdisjoint(gradients)


def test_a_corpus_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError, match="no corpus"):
        find_cases(Path("nowhere"))


def test_inputs_are_declared_by_rank_alone() -> None:
    case = read_case(find_cases(GOLDEN / "models" / "lstm")[0])
    assert declared(case, "input", with_sizes=False) == (np.dtype(np.float32), [None, None, None])
    assert declared(case, "input", with_sizes=True) == (np.dtype(np.float32), [5, 3, 4])


def test_quantized_inputs_are_declared_with_scale_and_zero_point() -> None:
    ref = find_cases(GOLDEN / "ops" / "Relu.npz")[0]
    case = Case(ref, NetDef(), None, {"X": np.zeros((2, 3), np.uint8)}, {}, {"X": (0.5, 7)})
    assert declared(case, "X", with_sizes=False) == (np.dtype(np.uint8), [None, None], (0.5, 7))


def test_string_inputs_are_declared_as_text() -> None:
    case = read_case(find_cases(GOLDEN / "ops" / "FindDuplicateElements.npz")[0])
    assert declared(case, "data", with_sizes=False) == (np.dtype(np.str_), [None])


def test_select_by_type_name_and_sample() -> None:
    refs = find_cases(GOLDEN)
    chosen = select(refs, ["Relu", "models/lstm", "basic_rnn_test"], gradients=False, sample=1)
    assert {ref.group for ref in chosen} == {"Relu", "models/lstm", "nets/basic_rnn_test"}
    whole = select(refs, ["Add"], gradients=False, sample=1)
    assert select(refs, ["Add"], gradients=False, sample=3) == whole[::3]


def test_select_gradients_without_a_converter_on_request() -> None:
    name = "NoSuchGradient"
    ref = CaseRef(Path(f"{name}.npz"), 0, f"ops/{name}/000", name, "op", frozenset({name}))
    refs = [*find_cases(GOLDEN / "ops" / "Relu.npz"), ref]
    assert not select(refs, [name], gradients=False, sample=1)
    assert select(refs, [name], gradients=True, sample=1) == [ref]


def test_gradient_operators_that_are_converted_count() -> None:
    """A converter makes its operator's cases count: the baseline, the coverage page and the round trips select here."""
    from caffe2_frontend.ops import converters

    refs = find_cases(GOLDEN)
    counted = {ref.group for ref in select(refs, [], gradients=False, sample=1)}
    recorded = {ref.group for ref in refs if ref.kind == "op" and ref.gradients}
    assert {"DropoutGrad", "NegateGradient", "StopGradient"} <= recorded & converters().keys()
    assert counted & recorded == recorded & converters().keys()


def test_names_that_match_nothing_are_listed() -> None:
    refs = find_cases(GOLDEN / "models" / "lstm")
    assert unmatched(refs, ["lstm", "models/lstm", "Relu"]) == ["models/lstm", "Relu"]


def test_forms_repeat_nets_and_models_only() -> None:
    refs = select(find_cases(GOLDEN), ["Relu", "models/lstm"], gradients=False, sample=1)
    tasks = make_tasks(refs, "onnxruntime", ("auto", "scan"))
    assert len(tasks) == len(refs) + 3
    assert tasks[-1].id == "models/lstm/2[scan]"
    assert len({task.id for task in tasks}) == len(tasks)
