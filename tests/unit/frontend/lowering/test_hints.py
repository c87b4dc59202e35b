"""Hints of diagnostics: what they say to type works."""

from __future__ import annotations

import pytest
from conformance.hints import typed_inputs
from conformance.recording import operator

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import check, to_onnx


def net(*ops: OperatorDef, inputs: tuple[str, ...] = ("x",)) -> NetDef:
    return NetDef(name="n", op=ops, external_input=inputs, external_output=[ops[-1].output[0]])


def hint(predict: NetDef, code: str, **inputs: object) -> str:
    (found,) = [finding for finding in check(predict, inputs=inputs).findings if finding.code == code]
    return found.hint


def test_an_undefined_blob_has_the_type_that_its_reader_expects() -> None:
    rows = operator("SparseLengthsSumFused8BitRowwise", ["data", "indices", "lengths"], ["y"])
    assert "--input 'data=uint8[N,D]'" in hint(net(rows, inputs=("indices", "lengths")), "undefined-blob")
    assert "--input 'z=float32[N,D]'" in hint(net(operator("Relu", ["z"], ["y"])), "undefined-blob")


def test_a_blob_that_only_a_body_reads_can_be_made_an_input() -> None:
    bodies = {"then_net": operator("Add", ["x", "z"], ["y"]), "else_net": operator("Copy", ["x"], ["y"])}
    branch = operator("If", ["c"], ["y"], **{name: NetDef(op=[body]) for name, body in bodies.items()})
    predict = net(branch, inputs=("c", "x"))
    known = {"c": ("bool", [1]), "x": ("float32", [2])}
    assert "--input 'z=float32[N,D]'" in hint(predict, "undefined-blob", **known)
    assert check(predict, inputs={**known, "z": ("float32", [2])}).covered


def test_an_input_of_another_type_is_described() -> None:
    mask = operator("SparseToDenseMask", ["ids", "ranges", "default"], ["y"], mask=[1, 2])
    predict = net(operator("LengthsToRanges", ["x"], ["ranges"]), mask, inputs=("x", "ids", "default"))
    assert "--input 'default=int32[2]'" in hint(predict, "invalid-operands")
    assert check(predict, inputs={"default": ("int32", ["N"])}).covered


def test_a_blob_that_operators_read_with_other_dims_is_named() -> None:
    ops = [
        operator("Conv", ["x", "w"], ["c"], kernel=3),
        operator("Mul", ["c", "w"], ["y"], broadcast=1, axis=1),
    ]
    predict = net(*ops, inputs=("x", "w"))
    assert hint(predict, "invalid-operands") == "2 operators read 'w': give this one a blob of its own"


def test_an_operator_without_a_conversion_says_what_to_type() -> None:
    predict = net(operator("Relu", ["x"], ["a"]), operator("Foo", ["a"], ["y"]))
    assert hint(predict, "unknown-operator", x=("float32", [2])).startswith("choose outputs that do not need it")
    assert to_onnx(predict, inputs={"x": ("float32", [2])}, outputs=["a"]).graph.output[0].name == "a"


def test_operators_that_chosen_outputs_need_keep_their_indices() -> None:
    ops = [
        operator("Foo", ["x"], ["u"]),
        operator("Relu", ["x"], ["a"]),
        operator("Bar", ["a"], ["b"]),
        operator("Relu", ["b"], ["b"]),
        operator("Add", ["z", "u"], ["v"]),
    ]
    predict = net(*ops, inputs=("x", "z"))
    with pytest.raises(ConversionError) as error:
        to_onnx(predict, inputs={"x": ("float32", [2])}, outputs=["b"])
    assert [str(finding.location) for finding in error.value.errors] == ["n[2] Bar"]
    model = to_onnx(predict, inputs={"x": ("float32", [2])}, outputs=["a"])
    assert [value.name for value in model.graph.input] == ["x"]


@pytest.mark.parametrize("scale", [1e-5, 0.02, 3.0])
def test_scales_of_hints_are_accepted(scale: float) -> None:
    conv = operator("Int8Conv", ["x", "w", "b"], ["y"], kernel=3, order="NHWC", Y_scale=scale, Y_zero_point=3)
    predict = net(conv, inputs=("x", "w", "b"))
    typed = typed_inputs(check(predict).findings)
    assert typed.keys() == {"x", "w"}
    assert check(predict, inputs=typed).covered


def test_a_scale_that_must_be_repeated_is_asked_for() -> None:
    pool = operator("Int8MaxPool", ["x"], ["y"], kernel=2, order="NHWC", Y_scale=0.5, Y_zero_point=7)
    assert "--input 'x=uint8[N,D,H,W]@0.5,7'" in hint(net(pool), "needs-quantization")


def test_weights_without_a_scale_are_looked_for_in_an_init_net() -> None:
    fc = operator("Int8FC", ["x", "w", "b"], ["y"], Y_scale=0.5, Y_zero_point=7)
    described = {"x": ("uint8", ["N", 3], (0.1, 128))}
    assert hint(net(fc, inputs=("x", "w", "b")), "needs-quantization", **described).startswith("give the init net")


def test_inputs_of_different_ranks_and_types_are_hinted_at_once() -> None:
    ops = [
        operator("IsMemberOf", ["ids"], ["among"], value=[1, 2]),
        operator("ReduceMean", ["videos"], ["means"], axes=[4]),
        operator("Relu", ["rows"], ["y"]),
    ]
    predict = net(*ops, inputs=("ids", "videos", "rows"))
    typed = typed_inputs(check(predict).findings)
    assert typed["ids"][0] in ("int32", "int64")
    assert len(typed["videos"][1]) == 5
    assert check(predict, inputs=typed).covered


def test_sizes_that_an_operator_needs_are_in_the_hint() -> None:
    sample = operator("WeightedSample", ["w", "v"], ["i", "s"])
    predict = NetDef(name="n", op=[sample], external_input=["w", "v"], external_output=["i", "s"])
    typed = typed_inputs(check(predict).findings)
    assert typed.keys() == {"w", "v"}
    assert check(predict, inputs=typed).covered


def test_outputs_to_choose_are_named() -> None:
    ops = [operator("Relu", ["x"], ["a"]), operator("Foo", ["a"], ["y"])]
    described = {"x": ("float32", [2])}
    assert hint(net(*ops), "unknown-operator", **described) == (
        "choose outputs that do not need it: --output a, or outputs=['a']"
    )
    assert hint(net(operator("Foo", ["x"], ["y"])), "unknown-operator", **described) == ""


def test_a_summary_for_a_file_is_noted() -> None:
    predict = net(
        operator("Relu", ["x"], ["y"]), operator("Summarize", ["x"], [], to_file=1), operator("Relu", ["y"], ["z"])
    )
    report = check(predict, inputs={"x": ("float32", [2])})
    assert report.covered
    assert [finding.reason for finding in report.findings] == [
        "the summary is not written to a file, because an ONNX model cannot write files"
    ]


def test_a_described_type_that_an_operator_cannot_read_is_named() -> None:
    unit = operator("LSTMUnit", ["h", "c", "gates", "lengths", "t"], ["h2", "c2"])
    predict = net(unit, inputs=("h", "c", "gates", "lengths", "t"))
    report = check(predict, inputs={"lengths": ("float32", ["N"])})
    assert "input 'lengths' is described as float32, and LSTMUnit reads it as int32" in {
        finding.reason for finding in report.findings
    }


def test_a_summary_says_whether_operators_have_a_conversion() -> None:
    relu = operator("Relu", ["x"], ["y"])
    described = {"x": ("float32", [2])}
    unknown = check(net(relu, operator("Foo", ["x"], ["z"])), inputs=described)
    assert unknown.summary().startswith("1 of 2 operators has no conversion: Foo")
    refused = check(net(relu, operator("TopK", ["x"], ["v", "i"], k=1, axis=3)), inputs=described)
    assert refused.summary().startswith("1 of 2 operators was not converted: TopK")
