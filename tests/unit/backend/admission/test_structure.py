from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from click.testing import CliRunner
from support.admission.models import FLOAT, call, function, graph, model, nested, node, value, written

from caffe2_backend import Predictor, run_model, to_netdef, validate
from caffe2_backend.admission import load_graph, load_ir, load_proto
from caffe2_bridge.bounds import MAX_BODIES
from caffe2_bridge.diagnostics import ConversionError
from caffe2_cli.commands import main

COMMAND = "from caffe2_cli.commands import main; main()"
CONDITION = value("c", onnx.TensorProto.BOOL, ())
OTHER = graph([node("Identity", ["x"], ["y"])], ())


def branch(body: onnx.GraphProto) -> onnx.ModelProto:
    return model(graph([node("If", ["c"], ["y"], then_branch=body, else_branch=OTHER)], [CONDITION, "x"]))


def with_attribute(**fields: object) -> onnx.ModelProto:
    made = node("Relu", ["x"], ["y"])
    made.attribute.add(**fields)
    return model(graph([made]))


def initialized(**fields: object) -> onnx.ModelProto:
    tensor = onnx.TensorProto(**{"name": "w", "data_type": FLOAT, "dims": [4], "float_data": [1, 2, 3, 4]} | fields)
    return model(graph([node("Relu", ["x"], ["y"])], initializer=[tensor]))


RELU = node("Relu", ["x"], ["y"])
INNER = node("Relu", ["x"], ["i"])
MALFORMED = {
    "undefined input": ("undefined-value", model(graph([node("RegexFullMatch", ["q"], ["y"])]))),
    "undefined output": ("undefined-value", model(graph([], outputs=["q"]))),
    "undefined in a body": ("undefined-value", branch(graph([node("Relu", ["q"], ["y"])], ()))),
    "undefined output of a body": ("undefined-value", branch(graph([], (), ["q"]))),
    "undefined in a function": (
        "undefined-value",
        model(graph([call("f", ["x"], ["y"])]), functions=[function("f", [node("Relu", ["q"], ["b"])])]),
    ),
    "value of a body read outside": (
        "undefined-value",
        model(
            graph(
                [
                    node("If", ["c"], ["z"], then_branch=graph([INNER], (), ["i"]), else_branch=OTHER),
                    node("Relu", ["i"], ["y"]),
                ],
                [CONDITION, "x"],
            )
        ),
    ),
    "cycle": ("cyclic-graph", model(graph([node("Relu", ["y"], ["a"]), node("Relu", ["a"], ["y"])]))),
    "cycle through a body": ("cyclic-graph", branch(graph([node("Relu", ["y"], ["i"])], (), ["i"]))),
    "output twice": ("duplicate-value", model(graph([RELU, RELU]))),
    "output that is an input": ("duplicate-value", model(graph([node("Relu", ["x"], ["x"])], outputs=["x"]))),
    "input twice": ("duplicate-value", model(graph([RELU], ["x", "x"]))),
    "function twice": (
        "duplicate-value",
        model(graph([call("f", ["x"], ["y"])]), functions=[function("f", [node("Relu", ["a"], ["b"])])] * 2),
    ),
    "operator without type": ("malformed-model", model(graph([node("", ["x"], ["y"])]))),
    "attribute without type": ("malformed-model", with_attribute(name="a", i=1)),
    "attribute without name": ("malformed-model", with_attribute(type=onnx.AttributeProto.INT, i=1)),
    "attribute without value": ("malformed-model", with_attribute(name="a", type=onnx.AttributeProto.GRAPH)),
    "reference outside a function": (
        "malformed-model", with_attribute(name="a", type=onnx.AttributeProto.INT, ref_attr_name="b")
    ),
    "If without bodies": ("malformed-model", model(graph([node("If", ["c"], ["y"])], [CONDITION]))),
    "tensor without type": ("malformed-model", initialized(data_type=0)),
    "tensor of unknown type": ("malformed-model", initialized(data_type=99)),
    "negative dim": ("malformed-model", initialized(dims=[-4])),
    "nested too deeply": ("nesting", nested(MAX_BODIES + 1)),
    "function that calls itself": (
        "nesting", model(graph([call("f", ["x"], ["y"])]), functions=[function("f", [call("f", ["a"], ["b"])])])
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_models_are_refused(name: str) -> None:
    code, made = MALFORMED[name]
    for door in (to_netdef, load_proto, Predictor, validate, lambda given: run_model(given, [np.zeros(4)])):
        with pytest.raises(ConversionError) as caught:
            door(made)
        assert {finding.code for finding in caught.value.findings} == {code}


def test_names_that_are_not_text() -> None:
    given = model(graph([node("Relu", ["x"], ["name"]), node("Neg", ["name"], ["y"])])).SerializeToString()
    with pytest.raises(ConversionError, match="not UTF-8"):
        load_proto(given.replace(b"name", b"nam\xff"))


@pytest.mark.parametrize("command", [["import", "-o", "out"], ["show"], ["validate"], ["run", "-o", "out.npz"]])
def test_no_command_dies_of_an_undefined_value(tmp_path: Path, command: list[str]) -> None:
    path = written(tmp_path, MALFORMED["undefined input"][1])
    result = subprocess.run(  # noqa: S603 - this project's own command
        [sys.executable, "-c", COMMAND, command[0], str(path), *command[1:]],
        capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == (1 if command[0] == "import" else 2), result
    assert "g[0] RegexFullMatch: error: input 'q' is not defined [undefined-value]" in result.stderr


def test_the_commands_say_what_is_wrong(tmp_path: Path) -> None:
    path = written(tmp_path, MALFORMED["cycle"][1])
    for command in (["import", path, "-o", tmp_path / "out"], ["show", path], ["validate", path]):
        result = CliRunner().invoke(main, [str(word) for word in command])
        assert result.exit_code == (1 if command[0] == "import" else 2)
        assert "depends on its own outputs [cyclic-graph]" in result.stderr


@pytest.mark.parametrize("place", ["graph", "body", "function"])
def test_nodes_are_sorted(place: str) -> None:
    nodes = [node("Relu", ["t"], ["y"]), node("Neg", ["x"], ["t"])]
    if place == "graph":
        made = model(graph(nodes))
    elif place == "body":
        reads = graph([node("Relu", ["t"], ["i"]), node("Neg", ["x"], ["t"])], (), ["i"])
        made = model(
            graph(
                [node("If", ["d"], ["y"], then_branch=reads, else_branch=OTHER), node("Identity", ["c"], ["d"])],
                [CONDITION, "x"],
            )
        )
    else:
        inner = [node("Relu", ["t"], ["b"]), node("Neg", ["a"], ["t"])]
        made = model(graph([call("f", ["x"], ["y"])]), functions=[function("f", inner)])
    before = made.SerializeToString()
    x = np.array([-1, 2, -3, 4], np.float32)
    feed = {"c": np.array(True), "x": x} if place == "body" else {"x": x}  # noqa: FBT003 - a value
    with pytest.raises(ConversionError, match="unsorted-graph"):
        to_netdef(ir.from_proto(made))
    for given in (made, before):
        np.testing.assert_array_equal(run_model(given, feed)[0], np.maximum(-x, 0))
    onnx.checker.check_model(load_proto(made))
    assert made.SerializeToString() == before


def test_sorting_keeps_the_order_of_what_is_ready() -> None:
    made = model(graph([node("Neg", ["x"], ["b"]), node("Relu", ["a"], ["y"]), node("Abs", ["x"], ["a"])]))
    assert [n.op_type for n in load_proto(made).graph.node] == ["Neg", "Abs", "Relu"]


def test_a_model_in_order_is_not_copied() -> None:
    made = model(graph([RELU]))
    assert load_proto(made) is made


def test_nesting_up_to_the_bound() -> None:
    made = nested(MAX_BODIES)
    assert load_proto(made) is made
    assert load_ir(made).graph.num_nodes() == 1


def test_objects_of_onnx_ir() -> None:
    free = ir.Value(name="q", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([4]))
    relu = ir.Node("", "Relu", [free], num_outputs=1)
    made = ir.Model(ir.Graph([], relu.outputs, nodes=[relu], opset_imports={"": 20}, name="g"), ir_version=10)
    with pytest.raises(ConversionError, match=r"input 'q' is not defined \[undefined-value\]"):
        to_netdef(made)
    with pytest.raises(ConversionError, match="unsorted-graph"):
        to_netdef(ir.from_proto(MALFORMED["cycle"][1]))
    with pytest.raises(ConversionError, match="nesting"):
        to_netdef(ir.from_proto(nested(MAX_BODIES + 1)))


UNTYPED = """
import sys
from support.admission.models import call, graph, model, node
from caffe2_backend import to_netdef
from caffe2_bridge.diagnostics import BridgeError
for foreign in ("error", "carry"):
    try:
        to_netdef(model(graph([call("unknown", ["x"], ["q"]), node("RegexFullMatch", ["q"], ["y"])])), foreign=foreign)
    except BridgeError as error:
        print(error)
"""


def test_a_value_without_a_type_does_not_end_the_process() -> None:
    result = subprocess.run(  # noqa: S603 - this Python
        [sys.executable, "-c", UNTYPED], capture_output=True, text=True, check=False, timeout=120,
        env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert result.returncode == 0, result


def test_show_needs_no_external_data(tmp_path: Path) -> None:
    tensor = onnx.TensorProto(name="w", data_type=FLOAT, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="absent.bin")
    path = written(tmp_path, model(graph([node("Add", ["x", "w"], ["y"])], initializer=[tensor])))
    assert load_graph(path).graph.initializer[0].name == "w"
    assert CliRunner().invoke(main, ["show", str(path)]).exit_code == 0
