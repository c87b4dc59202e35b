from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import onnx
from conformance.recording import operator
from rich.console import Console
from rich.table import Table
from support.cells import fills

from caffe2_backend.picture.summary import summarize
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_cli.output.summary import summary_tables


def text(table: Table) -> str:
    file = io.StringIO()
    Console(width=100, file=file).print(table)
    return file.getvalue()


def test_a_model_in_three_tables() -> None:
    body = NetDef(
        op=[
            operator("Relu", ["x"], ["y"]),
            operator("If", ["c"], [], then_net=NetDef(op=[operator("Exp", ["x"], ["y"])])),
        ]
    )
    ops = [operator("FC", ["x", "w", "b"], ["z"]), operator("If", ["c"], ["y"], then_net=body)]
    net = NetDef(name="n", op=ops, external_input=["x", "c"], external_output=["y"])
    weights = {"b": np.zeros(4, np.float32), "w": np.zeros((4, 3), np.float32)}
    interface, operators, parameters = map(text, summary_tables(summarize(Model.of(net, fills(weights), "there"))))
    assert "there: n" in interface
    assert interface.index("x") < interface.index("c ") < interface.index("y ")
    assert "2 operators" in operators
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in operators.splitlines() if line.startswith("│")]
    assert rows == [["Exp", "", "1"], ["FC", "1", ""], ["If", "1", "1"], ["Relu", "", "1"]]
    assert "2 parameters, 64 bytes" in parameters
    assert parameters.index(" w ") < parameters.index(" b ")
    assert "4 x 3" in parameters


def test_long_lists_are_cut() -> None:
    weights = {f"w{k}": np.zeros(1, np.float32) for k in range(25)}
    parameters = text(summary_tables(summarize(Model.of(NetDef(), fills(weights))))[2])
    assert "25 parameters, 100 bytes" in parameters
    assert "and 5 more" in parameters


def test_sizes_that_no_file_has(tmp_path: Path) -> None:
    weight = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[2**62] * 300)
    graph = onnx.GraphProto(name="g", initializer=[weight])
    path = tmp_path / "large.onnx"
    path.write_bytes(onnx.ModelProto(ir_version=10, graph=graph).SerializeToString())
    parameters = text(summary_tables(summarize(path))[2])
    assert "1 parameters, 2^64 or more bytes" in parameters
