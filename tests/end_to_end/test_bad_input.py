"""What is wrong with a model is said clearly, with its place, all of it at once; and nothing is written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from conformance.recording import operator
from support.cells import fills
from support.commands import call
from support.paths import ROOT

from caffe2_bridge import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import check, to_onnx

OLD = b"what was there"
CHAR_RNN = ROOT / "models" / "char_rnn"


def refused(tmp_path: Path, model: Path, *words: object, code: int = 1) -> str:
    """Return what ``export`` says, once it ended with this code, wrote nothing and left the old file as it was."""
    target = tmp_path / "out" / "model.onnx"
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(OLD)
    result = call("export", model, "-o", target, *words)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert target.read_bytes() == OLD
    assert [path.name for path in target.parent.iterdir()] == ["model.onnx"]
    return result.stderr


def written(tmp_path: Path, content: bytes, name: str = "net.pb") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def net(ops: Sequence[OperatorDef], inputs: Sequence[str] = ("x",), outputs: Sequence[str] = ()) -> NetDef:
    return NetDef(name="predict", op=ops, external_input=inputs, external_output=outputs)


def findings(predict: NetDef, init: NetDef | None = None) -> list[str]:
    """Return ``code place`` of each finding: those of the check, which are those of the conversion."""
    inputs = {"x": ("float32", ["N", 3])}
    found = check(predict, init, inputs=inputs).findings
    with pytest.raises(ConversionError) as raised:
        to_onnx(predict, init, inputs=inputs)
    assert raised.value.findings == found
    return [f"{finding.code} {finding.location}" for finding in found]


WHOLE = NetDef(name="net", op=[operator("FC", ["x", "w", "b"], ["y"])], external_input=["x"]).SerializeToString()
HTML = b"<!DOCTYPE html>\n<html><head><title>404</title></head></html>"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b" \n", "the file holds only white space"),
        (HTML, "this is a web page, not a net"),
        (WHOLE[:-5], "truncated or damaged"),
        (b"\x00\xff" * 40, "neither a net"),
        (b'op { type: "Relu" inpt: "x" }', 'no field named "inpt"'),
    ],
    ids=["empty", "blank", "html", "truncated", "noise", "misspelt text"],
)
def test_files_that_are_no_net(tmp_path: Path, content: bytes, reason: str) -> None:
    path = written(tmp_path, content)
    text = refused(tmp_path, path, code=2)
    assert text.startswith(f"error: {path}: ")
    assert reason in text
    assert text.count("\n") == 1
    for command in ("check", "show"):
        result = call(command, path)
        assert (result.exit_code, result.stderr) == (2, text)


def test_missing_files(tmp_path: Path) -> None:
    assert "cannot be read: No such file or directory" in refused(tmp_path, tmp_path / "none.pb", code=2)
    path = written(tmp_path, WHOLE)
    assert "none.pb: cannot be read" in refused(tmp_path, path, "--init", tmp_path / "none.pb", code=2)
    (tmp_path / "empty").mkdir()
    assert "the folder has no net" in refused(tmp_path, tmp_path / "empty", code=2)


def test_a_damaged_init_net(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE)
    init = fills({"w": np.zeros((4, 3), np.float32)}).SerializeToString()
    damaged = written(tmp_path, init[:-3], "init.pb")
    assert str(damaged) in refused(tmp_path, path, "--init", damaged, code=2)


def test_a_predict_net_in_place_of_the_init_net(tmp_path: Path) -> None:
    text = refused(tmp_path, CHAR_RNN / "predict_net.pb", "--init", CHAR_RNN / "predict_net.pb")
    assert "init[0] FC: error: the operator reads 'input_blob', which no operator of the init net writes (" in text or (
        "[0] FC: error: the operator reads 'input_blob', which no operator of the init net writes" in text
    )
    assert "[not-an-init-net] (an init net only writes parameters: exchange the files if this is a predict net)" in text
    assert text.count("not-an-init-net") == 1
    assert "undefined-blob" not in text


def test_unknown_operators_are_all_reported(tmp_path: Path) -> None:
    ops = [
        operator("Foo", ["x"], ["a"]), operator("Relu", ["a"], ["b"]), operator("Bar", ["b"], ["c"]),
        operator("Bar", ["x"], ["d"]),
    ]  # fmt: skip
    predict = net(ops, outputs=["c", "d"])
    assert findings(predict) == [
        "unknown-operator predict[0] Foo", "unknown-operator predict[2] Bar", "unknown-operator predict[3] Bar",
    ]  # fmt: skip
    text = refused(tmp_path, written(tmp_path, predict.SerializeToString()), "--input", "x=float32[N,3]")
    assert text.splitlines() == [
        f"predict[{index}] {kind}: error: operator {kind!r} has no conversion [unknown-operator]"
        for index, kind in ((0, "Foo"), (2, "Bar"), (3, "Bar"))
    ]


def test_every_kind_of_finding_comes_at_once_in_net_order() -> None:
    ops = [
        operator("Foo", ["x"], ["a"]),
        operator("Sum", ["a", "p"], ["b"]),
        operator("LeakyRelu", ["x"], ["e"], alpha="much"),
        operator("Split", ["x"], ["c", "c"]),
        operator("Relu", ["q"], ["q"]),
        operator("Softmax", ["x"], ["s"], axes=1),
        operator("FC", ["x"], ["f"]),
        operator("Tanh", ["late"], ["t"]),
        operator("Copy", ["x"], ["late"]),
        operator("Sum", ["b", "c", "e", "q", "s", "f", "t"], ["y"]),
    ]
    assert findings(net(ops, outputs=["y", "nobody"])) == [
        "unknown-operator predict[0] Foo",
        "undefined-blob predict[1] Sum",
        "invalid-argument predict[2] LeakyRelu",
        "duplicate-output predict[3] Split",
        "undefined-blob predict[4] Relu",
        "ignored-argument predict[5] Softmax",
        "missing-input predict[6] FC",
        "undefined-blob predict[7] Tanh",
        "undefined-output predict",
    ]


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        (operator("FC", ["x", "w", "b"], ["y"], axis=1.0), "argument 'axis' must be an integer, not a float"),
        (operator("LeakyRelu", ["x"], ["y"], alpha=1), "argument 'alpha' must be a float, not an integer"),
        (operator("Transpose", ["x"], ["y"], axes="01"), "argument 'axes' must be a list of integers, not a string"),
        (operator("Reshape", ["x"], ["y", "old"]), "shape"),
    ],
)
def test_wrong_arguments(tmp_path: Path, op: OperatorDef, reason: str) -> None:
    path = written(tmp_path, net([op], op.input, ["y"]).SerializeToString())
    text = refused(tmp_path, path, "--input", "x=float32[N,3]")
    (error,) = [line for line in text.splitlines() if "[missing-parameters]" not in line]
    assert error.startswith(f"predict[0] {op.type}: error: ")
    assert reason in text


def test_a_wrong_argument_says_so_where_nothing_is_known_of_the_input() -> None:
    predict = net([operator("FC", ["x", "w", "b"], ["y"], axis=1.0)], ["x", "w", "b"], ["y"])
    ops = [operator("Tanh", ["x"], ["t"], strange=1), *predict.op, operator("LeakyRelu", ["x"], ["r"], alpha="a")]
    found = [(finding.code, finding.location.op_type) for finding in check(net(ops, ["x", "w", "b"], ["r"])).findings]
    assert found == [
        ("missing-parameters", ""),
        ("needs-shape", ""),
        ("ignored-argument", "Tanh"),
        ("invalid-argument", "FC"),
        ("invalid-argument", "LeakyRelu"),
    ]


def test_an_input_that_nothing_feeds(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE)
    text = refused(tmp_path, path)
    undefined = (
        "which no earlier operator writes and which is not an external input [undefined-blob] (give the init net"
    )
    assert f"net[0] FC: error: the operator reads blob 'w', {undefined}" in text
    assert "net[0] FC: error: the operator reads blob 'b', which" in text
    np.savez(tmp_path / "in.npz", z=np.zeros(3, np.float32))
    result = call("run", CHAR_RNN, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    assert result.exit_code == 2
    assert "input 'z' does not exist: the model has the inputs" in result.stderr
    assert not (tmp_path / "out.npz").exists()
    np.savez(tmp_path / "in.npz", seq_lengths=np.ones(1, np.int32))
    result = call("run", CHAR_RNN, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    assert result.exit_code == 2
    assert "'input_blob', " in result.stderr
    assert "are not given (input_blob: " in result.stderr
    assert not (tmp_path / "out.npz").exists()


def test_findings_in_bodies_have_their_place() -> None:
    then = NetDef(op=[operator("Foo", ["x"], ["y"]), operator("Sum", ["x", "v"], ["z"])])
    other = NetDef(op=[operator("Copy", ["x"], ["y"]), operator("Bar", ["x"], ["z"])])
    choose = operator("If", ["c"], ["y"], then_net=then, else_net=other)
    predict = net([choose, operator("Baz", ["y"], ["w"])], ["c", "x"], ["w"])
    assert findings(predict) == [
        "unknown-operator predict[0] If > then_net[0] Foo",
        "undefined-blob predict[0] If > then_net[1] Sum",
        "unknown-operator predict[0] If > else_net[1] Bar",
        "unknown-operator predict[1] Baz",
    ]


def test_bodies_of_an_operator_that_cannot_be_converted_are_looked_into() -> None:
    step = NetDef(op=[operator("Foo", ["x_t"], ["h"])])
    outputs = ["h_all", "step_workspaces"]  # the last output of the operator is never a tensor
    loop = operator("RecurrentNetwork", ["a", "h0"], outputs, step_net=step, initial_recurrent_state_ids=[1])
    predict = net([operator("Bar", ["x"], ["a"]), loop], ["x", "h0"], ["h_all"])
    assert findings(predict) == [
        "unknown-operator predict[0] Bar",
        "unknown-operator predict[1] RecurrentNetwork > step_net[0] Foo",
    ]


def test_the_states_of_a_refused_loop_are_not_reported_again() -> None:
    loop = operator(
        "RecurrentNetwork",
        ["x", "h0"],
        ["h_all", "workspaces"],
        recurrent_states=["s"],
        alias_dst=["h_last"],
        initial_recurrent_state_ids=[1],
    )
    ops = [loop, operator("Relu", ["s"], ["a"]), operator("Relu", ["h_last"], ["y"])]
    assert findings(net(ops, ["x", "h0"], ["a", "y"])) == ["invalid-argument predict[0] RecurrentNetwork"]


@pytest.mark.parametrize(
    "words",
    [
        ["--recurrent", "spiral"],
        ["--opset", "99"],
        ["--opset", "0"],
        ["--opset", "new"],
        ["--input", "input_blob"],
        ["--input", "input_blob=quaternion[T,N,94]"],
        ["--input", "nobody=float32[1]"],
        ["--output", "nobody"],
        ["--colour", "red"],
    ],
)
def test_wrong_options_are_usage(tmp_path: Path, words: list[str]) -> None:
    target = written(tmp_path, OLD, "out.onnx")
    result = call("export", CHAR_RNN, "-o", target, *words)
    assert result.exit_code == 2
    assert "error: " in result.stderr
    assert words[0] in result.stderr or words[1].partition("=")[0] in result.stderr or "quaternion" in result.stderr
    assert target.read_bytes() == OLD


def test_an_opset_that_cannot_express_the_model(tmp_path: Path) -> None:
    text = refused(tmp_path, CHAR_RNN, "--opset", "8", "--recurrent", "scan")
    assert "cannot be converted from opset 20 to 8: " in text
    assert text.endswith("[opset] (choose a later opset: --opset 20, or opset=20)\n")


def test_a_form_that_cannot_express_the_model(tmp_path: Path) -> None:
    text = refused(tmp_path, CHAR_RNN, "--recurrent", "fused", "--output", "LSTM/cell_state_all")
    assert "RecurrentNetwork: error: no LSTM, GRU or RNN operator" in text


def test_targets_that_cannot_be_written(tmp_path: Path) -> None:
    missing = tmp_path / "none" / "out.onnx"
    result = call("export", CHAR_RNN, "-o", missing)
    assert result.exit_code == 2
    assert result.stderr == f"error: {missing}: the folder {missing.parent} does not exist\n"
    folder = tmp_path / "folder.onnx"
    folder.mkdir()
    result = call("export", CHAR_RNN, "-o", folder)
    assert result.exit_code == 2
    assert str(folder) in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["folder.onnx"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", HTML])
def test_inputs_that_are_no_arrays(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path, content, "in.npz")
    result = call("run", CHAR_RNN, "--inputs", path, "-o", tmp_path / "out.npz")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {path}: not an .npz file of plain arrays")
    assert not (tmp_path / "out.npz").exists()


def test_inputs_that_would_run_code_are_not_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", input_blob=np.array([{"a": 1}], object))
    np.save(tmp_path / "single.npy", np.zeros(3))
    for name in ("in.npz", "single.npy"):
        result = call("run", CHAR_RNN, "--inputs", tmp_path / name, "-o", tmp_path / "out.npz")
        assert result.exit_code == 2
        assert "not an .npz file of plain arrays" in result.stderr


def test_a_check_of_a_bad_net_ends_with_1(tmp_path: Path) -> None:
    path = written(tmp_path, net([operator("Foo", ["x"], ["y"])], outputs=["y"]).SerializeToString())
    result = call("check", path, "--input", "x=float32[N]")
    assert result.exit_code == 1
    assert result.stdout == "0 operators convert; not covered\n"
    assert result.stderr == ("predict[0] Foo: error: operator 'Foo' has no conversion [unknown-operator]\n")
    result = call("check", path, "--input", "x=float32[N]", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["covered"] is False


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("m.onnx", b"", "the file is empty"),
        ("m.onnx", b"\xff\xfe damaged", "the file is damaged or incomplete, or of another format"),
        ("m.onnx", b"PK\x03\x04...", "this is a zip archive (or a TorchScript file)"),
        (
            "m.onnx",
            b"version https://git-lfs.github.com/spec/v1\n",
            "this is a Git LFS pointer: the file itself was not fetched",
        ),
        ("m.textproto", b"graph {{", "the text cannot be parsed as the format 'textproto' in line 1"),
    ],
)
def test_the_import_of_a_damaged_file(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    path = written(tmp_path, content, name)
    result = call("import", path, "-o", tmp_path / "out")
    assert (result.exit_code, result.stderr) == (2, f"error: {path}: not an ONNX model: {reason}\n")


def test_the_import_of_what_is_no_file(tmp_path: Path) -> None:
    result = call("import", tmp_path, "-o", tmp_path / "out")
    assert (result.exit_code, result.stderr) == (2, f"error: {tmp_path}: this is a folder, and a file is expected\n")


def test_an_onnx_file_that_is_none(tmp_path: Path) -> None:
    path = written(tmp_path, HTML, "model.onnx")
    none = tmp_path / "none.onnx"
    reasons = {path: f"error: {path}: not an ONNX model", none: f"error: {none}: no such file or folder"}
    for model, reason in reasons.items():
        result = call("run", model, "-o", tmp_path / "out.npz")
        assert result.exit_code == 2
        assert result.stderr.startswith(reason)
    result = call("run", CHAR_RNN, "-o", tmp_path / "out.npz", "--device", "tpu")
    assert result.exit_code == 2
    assert not (tmp_path / "out.npz").exists()
