"""Pictures: what stands in them and how it hangs together; how they look is for eyes.

Modules: caffe2, onnx_model, shape_labels.
"""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser
from support.paths import MODELS

import caffe2_bridge as c2
from caffe2_backend.picture import Edge, Kind, Sketch, draw, render, sketch_model, sketch_onnx, to_dot
from caffe2_backend.picture.dot import colours_of
from caffe2_backend.picture.sketch import extent, shortened, size_text
from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import Argument, DeviceOption, NetDef, OperatorDef

GPU = DeviceOption(device_type=1, device_id=1)
X = "\N{MULTIPLICATION SIGN}"
needs_graphviz = pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")


def model_of(*ops: OperatorDef, outputs: tuple[str, ...] = (), **shapes: tuple[int, ...]) -> c2.Model:
    parameters = {
        n: Parameter(n, np.dtype(np.float32), s, lambda s=s: np.ones(s, np.float32)) for n, s in shapes.items()
    }
    predict = NetDef(name="net", op=ops, external_input=["x", *shapes], external_output=outputs)
    return c2.Model.of(predict, InitNet(parameters, serialized=lambda: fill_net(parameters.values(), ())))


def op(kind: str, inputs: str, outputs: str, device: DeviceOption | None = None, **arguments: object) -> OperatorDef:
    args = [Argument(name=name, n=net) for name, net in arguments.items() if isinstance(net, NetDef)]
    args += [Argument(name=name, i=value) for name, value in arguments.items() if isinstance(value, int)]
    return OperatorDef(type=kind, input=inputs.split(), output=outputs.split(), device_option=device, arg=args)


def story(sketch: Sketch) -> list[str]:
    """Return the edges that blobs flow along, as ``from -label-> to``."""
    titles = {node.key: node.title or "*" for node in sketch.whole.every_node()}
    return [f"{titles[e.source]} -{e.label}-> {titles[e.target]}" for e in sketch.edges if e.data]


def lines_of(sketch: Sketch, title: str) -> list[tuple[str, ...]]:
    return [node.lines for node in sketch.whole.every_node() if node.title == title]


def test_operators_parameters_and_what_flows() -> None:
    net = model_of(
        op("FC", "x w b", "h", axis=1), op("Relu", "h", "h"), op("FC", "h v b", "y"),
        outputs=("y", "h"), w=(4, 3), b=(4,), v=(4, 4),
    )  # fmt: skip
    sketch = sketch_model(net)
    assert story(sketch) == [
        "x --> FC", f"FC -h  ?{X}4-> Relu", f"Relu -h  ?{X}4-> FC", f"FC -?{X}4-> y", "Relu --> h",
    ]  # fmt: skip
    assert lines_of(sketch, "FC") == [("axis 1", f"w  4{X}3", "b  4"), (f"v  4{X}4", "b  4")]
    kinds = [(node.title, node.kind) for node in sketch.whole.every_node() if node.kind is not Kind.OPERATOR]
    assert kinds == [("x", Kind.INPUT), ("y", Kind.OUTPUT), ("h", Kind.OUTPUT)]
    assert sketch.title == "net: 3 operators, 3 parameters (128 bytes)"


def test_a_parameter_that_is_written_over_flows_from_then_on() -> None:
    sketch = sketch_model(model_of(op("Add", "x w", "w"), op("Exp", "w", "y"), outputs=("y",), w=(2,)))
    assert story(sketch) == ["x --> Add", "Add -w  2-> Exp", "Exp -2-> y"]  # whether x is broadcast or not
    assert lines_of(sketch, "Add") == [("w  2",)]


def test_parameters_with_one_stem_share_a_line() -> None:
    names = ["res_bn_s", "res_bn_b", "res_bn_rm", "res_bn_riv"]
    sketch = sketch_model(model_of(op("SpatialBN", f"x {' '.join(names)}", "y"), **dict.fromkeys(names, (64,))))
    assert lines_of(sketch, "SpatialBN") == [("res_bn_{s,b,rm,riv}  64",)]


def test_step_nets_are_boxes_with_their_states() -> None:
    sketch = sketch_model(c2.load(MODELS / "lstm"))
    operator, body = sketch.whole.every_box()
    assert [node.title for node in operator.nodes] == ["RecurrentNetwork", ""]
    assert (body.title, body.body) == ("step_net", True)
    assert [n.title for n in body.nodes if n.kind is Kind.OPERATOR] == ["FC", "Sum", "LSTMUnit"]
    notes = {node.title: node.lines for node in body.nodes if node.kind is not Kind.OPERATOR}
    assert notes["input_t"] == ("= rnn/i2h[t]",)
    assert notes["rnn/cell_t_prev"] == ("= rnn/rnn/cell_t_prev_states[t]",)
    assert notes["rnn/cell_state"] == ("= rnn/rnn/cell_t_prev_states[t + 1]",)
    assert lines_of(sketch, "RecurrentNetwork") == [()]  # its parameters are told where they are used
    assert lines_of(sketch, "FC")[1] == ("axis 2", f"rnn/gates_t_w  24{X}6", "rnn/gates_t_b  24")
    flow = story(sketch)
    assert f"FC -rnn/i2h  ?{X}?{X}24-> RecurrentNetwork" in flow
    assert f"* -1{X}?{X}?-> rnn/hidden_state_last" in flow
    assert f"LSTMUnit -1{X}?{X}6-> rnn/hidden_state" in flow
    # What only holds the picture together runs from the operator into its body and out of it.
    held = [edge for edge in sketch.edges if not edge.data]
    assert {edge.source for edge in held} >= {operator.nodes[0].key}
    assert {edge.target for edge in held} >= {operator.nodes[1].key}


def test_a_step_net_in_text_is_drawn_too() -> None:
    sketch = sketch_model(c2.load(MODELS / "lstm_text_step_net"))
    assert "LSTMUnit" in [node.title for node in sketch.whole.every_node()]


def test_control_flow_without_its_machinery() -> None:
    sketch = sketch_model(c2.load(MODELS / "control_while_if"))
    assert [box.title for box in sketch.whole.every_box() if box.body] == [
        "loop_net", "net", "then_net", "net", "else_net", "net", "cond_net", "net",
    ]  # fmt: skip
    titles = [node.title for node in sketch.whole.every_node()]
    assert titles.count("Do") == 4
    assert "CreateScope" not in titles
    assert not [title for title in titles if "workspace" in title]


def test_what_a_body_takes_from_outside_comes_along_an_edge() -> None:
    then = NetDef(name="then", op=[op("Add", "far near", "y")], external_output=["y"])
    net = model_of(op("Exp", "x", "far"), op("Exp", "x", "c"), op("If", "c", "y", then_net=then), outputs=("y",))
    assert [line for line in story(sketch_model(net)) if line.endswith("> If")] == ["Exp -c-> If", "Exp -far-> If"]


def test_devices_are_colours_with_a_legend_where_there_are_several() -> None:
    inner = NetDef(op=[op("Exp", "h", "y")], external_output=["y"])
    several = sketch_model(
        model_of(op("Exp", "x", "h", GPU), op("If", "x", "y", GPU, then_net=inner), op("Exp", "y", "z"))
    )
    assert several.devices() == ["CUDA:1", "CPU"]
    devices = [(node.title, node.device) for node in several.whole.every_node() if node.kind is Kind.OPERATOR]
    assert devices == [("Exp", "CUDA:1"), ("Exp", "CPU"), ("If", "CUDA:1"), ("Exp", "CUDA:1")]  # bodies inherit
    assert len(set(colours_of(several).values())) == 2
    assert "legend" in to_dot(several)
    alone = sketch_model(model_of(op("Exp", "x", "h")))
    assert "legend" not in to_dot(alone)
    assert colours_of(alone)["CPU"] == colours_of(several)["CPU"]


def test_a_net_that_the_export_refuses_is_drawn_without_shapes() -> None:
    sketch = sketch_model(model_of(op("NoSuchOperator", "x", "h"), op("Exp", "h", "y"), outputs=("y",)))
    assert story(sketch) == ["x --> NoSuchOperator", "NoSuchOperator -h-> Exp", "Exp --> y"]


HOSTILE = ('a"b\\N', "<B>&amp;", "new\nline", "\x1b[31m", "é日本", "{}|[]", "x" * 500)


@needs_graphviz
def test_any_name_can_be_drawn() -> None:
    ops = [OperatorDef(type=f"T{name}", name=name, input=["x", name], output=[f"{name}2"]) for name in HOSTILE]
    svg = render(sketch_model(c2.Model.of(NetDef(name='"><script>', op=ops, external_output=[f"{HOSTILE[0]}2"]))))
    text = svg.decode()
    ET.fromstring(text)  # noqa: S314 - our own picture
    assert "<script" not in text
    assert "\x1b" not in text
    shown = [element.text for element in ET.fromstring(text).iter() if element.text]  # noqa: S314 - our own picture
    assert 'a"b\N{REVERSE SOLIDUS OPERATOR}N' in shown
    assert "<B>&amp;" in shown
    assert max(map(len, shown)) < 600


@needs_graphviz
@pytest.mark.parametrize("name", ["lstm", "attention_regular", "control_while_if", "control_if_no_else", "milstm"])
def test_every_operator_is_in_the_svg(tmp_path: Path, name: str) -> None:
    model = c2.load(MODELS / name)
    target = tmp_path / "out.svg"
    draw(model, target)
    root = ET.fromstring(target.read_text("utf-8"))  # noqa: S314 - our own picture
    assert root.tag.endswith("svg")
    shown = {element.text for element in root.iter() if element.text}
    sketch = sketch_model(model)
    assert {node.title for node in sketch.whole.every_node()} - {""} <= shown
    groups = [element for element in root.iter() if element.get("class") == "edge"]
    assert len(groups) == len(sketch.edges)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.svg"]


def test_without_graphviz_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(c2.BridgeError, match=r"drawn by graphviz.*'dot' is not on the path: install it"):
        draw(model_of(op("Exp", "x", "y")), tmp_path / "out.svg")
    assert list(tmp_path.iterdir()) == []


@needs_graphviz
def test_graphviz_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("caffe2_backend.picture.graphviz._SECONDS", 1e-6)
    with pytest.raises(c2.BridgeError, match="graphviz did not finish 3 nodes"):
        render(sketch_model(model_of(op("Exp", "x", "y"), outputs=("y",))))


ONNX = """
<ir_version: 9, opset_import: ["" : 20]>
graph (float[N, 4] x, bool c) => (float[N, 3] y)
<float[4, 3] w = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}>
{
    h = MatMul (x, w)
    one = Constant <value = float[1] {1.0}> ()
    far = Exp (h)
    y = If (c) <
        then_branch = inner () => (float[N, 3] a) { a = Add (far, one) },
        else_branch = other () => (float[N, 3] b) { b = Identity (h) }
    >
}
"""


def test_onnx_models(tmp_path: Path) -> None:
    onnx.save(parser.parse_model(ONNX), tmp_path / "m.onnx")
    sketch = sketch_onnx(tmp_path / "m.onnx")
    assert story(sketch) == [
        "x --> MatMul", f"MatMul -h  N{X}3-> Exp", "far --> Add", f"Add -N{X}3-> a", "h --> Identity",
        f"Identity -N{X}3-> b", "c --> If", f"Exp -far  N{X}3-> If", "MatMul --> If", f"* -N{X}3-> y",
    ]  # fmt: skip
    assert lines_of(sketch, "MatMul") == [(f"w  4{X}3",)]
    assert lines_of(sketch, "Add") == [("one  1",)]
    assert [box.title for box in sketch.whole.every_box() if box.body] == ["then_branch", "else_branch"]


def test_what_is_no_onnx_model(tmp_path: Path) -> None:
    for content in (b"", b"\xff\xff\xff", NetDef(name="net", op=[op("Exp", "x", "y")]).SerializeToString()):
        (tmp_path / "m.onnx").write_bytes(content)
        with pytest.raises(c2.NetFormatError, match="not an ONNX model"):
            sketch_onnx(tmp_path / "m.onnx")
    with pytest.raises(c2.NetFormatError, match="cannot be read: No such file"):
        sketch_onnx(tmp_path / "none.onnx")


@needs_graphviz
def test_a_chain_of_a_thousand_operators_is_drawn() -> None:
    ops = [op("Relu", f"b{i}" if i else "x", f"b{i + 1}") for i in range(1000)]
    sketch = sketch_model(model_of(*ops, outputs=("b1000",)))
    assert render(sketch).count(b'<g id="node') == 1002


def test_texts() -> None:
    assert shortened("short") == "short"
    assert shortened("gpu_0/res4_22_branch2b_bn_running_variance") == "gpu_0/r…2b_bn_running_variance"
    assert extent(None) == extent((None, "x_dim_0", "unk__3", "")) == ""
    assert extent(()) == "scalar"
    assert extent((0, None, "N")) == f"0{X}?{X}N"
    assert [size_text(n) for n in (999, 1150, 2_500_000_000)] == ["999 bytes", "1.15 kB", "2.5 GB"]
    assert Edge("a", "b").data
