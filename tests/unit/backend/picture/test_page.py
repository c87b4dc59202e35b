"""The interactive picture's page: what the viewer is handed; how it behaves is tested in a browser.

Modules: page, weights.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from support.paths import CHAR_RNN, MODELS, ROOT

import caffe2_bridge as c2
from caffe2_backend import picture_html
from caffe2_backend.picture import picture_data, picture_of
from caffe2_backend.picture.sketch import Type
from caffe2_backend.picture.weights import describe_values, weight_data
from caffe2_bridge.devices import OperatorProfile, Profile
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def data_of(page: str) -> Any:
    (text,) = re.findall(r'<script type="application/gzip">([^<]*)</script>', page)
    return json.loads(gzip.decompress(b64decode(text)))


def operators(net: Any) -> list[Any]:
    found = [node for node in net["nodes"] if node["kind"] == "operator"]
    return [*found, *(inner for node in found for body in node.get("bodies", ()) for inner in operators(body))]


def test_the_model_and_its_export_are_linked_by_location() -> None:
    caffe2, exported = data_of(picture_html(c2.load(CHAR_RNN)))["sides"]
    assert (caffe2["name"], exported["name"]) == ("Caffe2", "ONNX")
    locations = {node["location"] for node in operators(caffe2["net"])}
    assert {node["location"] for node in operators(exported["net"])} <= locations


def test_what_the_panel_shows_of_an_operator() -> None:
    data = picture_data(picture_of(c2.load(MODELS / "lstm")))
    operator = next(node for node in operators(data["sides"][0]["net"]) if node["location"].endswith("step_net[0] FC"))
    assert operator["arguments"][-1] == ("axis", "2")
    assert operator["inputs"] == ("rnn/hidden_t_prev", "rnn/gates_t_w", "rnn/gates_t_b")
    assert operator["device"] == "CPU"
    weight = data["sides"][0]["weights"]["rnn/gates_t_w"]
    assert (weight["shape"], weight["dtype"]) == ("24\N{MULTIPLICATION SIGN}6", "float32")
    assert sum(weight["stats"]["counts"]) == 24 * 6
    given = next(node for node in data["sides"][0]["net"]["nodes"] if node["t"] == "input")
    assert given["outputs"] == [("input", "?\N{MULTIPLICATION SIGN}?\N{MULTIPLICATION SIGN}4", "float32")]


def test_edges_join_nodes_of_one_net() -> None:
    for side in picture_data(picture_of(c2.load(MODELS / "control_while_if")))["sides"]:
        nets = [side["net"]]
        for net in nets:
            nets += [body for node in net["nodes"] for body in node.get("bodies", ())]
            assert all(max(edge[:2]) < len(net["nodes"]) for edge in net["edges"])
        assert sum(len(net["edges"]) for net in nets) > 10


def test_diagnostics_are_on_their_operators_or_on_the_net() -> None:
    refused = c2.Model.of(NetDef(name="n", op=[OperatorDef(type="NoSuchOperator", input=["x"], output=["y"])]))
    data = picture_data(picture_of(refused))
    (side,) = data["sides"]  # there is no export
    (operator,) = operators(side["net"])
    assert operator["findings"][0][:2] == ("error", "unknown-operator")
    whole = picture_data(picture_of(c2.load(MODELS / "control_while_if")))
    assert {finding[1] for finding in whole["findings"]} == {"assumed-rank", "needs-shape"}


def test_described_inputs_make_an_export_possible() -> None:
    model = c2.load(MODELS / "control_while_if")
    inputs = {name: ("float32", [1]) for name in model.inputs}
    assert len(picture_of(model, inputs=inputs).sides) == 2


def test_times_of_a_profile() -> None:
    model = c2.Model.of(NetDef(name="n", op=[OperatorDef(type="Relu", input=["x"], output=["y"])]))
    profile = Profile("n", "cpu", (OperatorProfile(0, "Relu", "", (), (), (3e-3, 1e-3, 2e-3)),))
    (operator,) = operators(data_of(picture_html(model, profile=profile))["sides"][0]["net"])
    assert operator["time"] == 2e-3


def test_weights_in_other_files_are_not_read(tmp_path: Path) -> None:
    text = '<ir_version: 9, opset_import: ["" : 20]> g (float[N, 2] x) => (float[N, 3] y) { y = MatMul (x, w) }'
    model = parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((2, 3), np.float32), "w"))
    onnx.save(model, tmp_path / "inside.onnx")
    onnx.save(model, tmp_path / "outside.onnx", save_as_external_data=True, size_threshold=0)
    inside, outside = (data_of(picture_html(tmp_path / f"{name}.onnx"))["sides"][0] for name in ("inside", "outside"))
    assert inside["weights"]["w"]["stats"]["mean"] == 1
    assert outside["weights"]["w"]["note"] == "The values are in another file."


HOSTILE = "</script><img src=x onerror=document.title='hacked'>"


def test_names_stay_out_of_the_markup() -> None:
    net = NetDef(name=HOSTILE, op=[OperatorDef(type=HOSTILE, name=HOSTILE, input=[HOSTILE], output=["<b>y"])])
    page = picture_html(c2.Model.of(net))
    assert "<img" not in page
    assert page.count("</script>") == 2
    assert operators(data_of(page)["sides"][0]["net"])[0]["inputs"] == [HOSTILE]
    assert not re.search(r"https?:|url\(|@import", page)


def test_statistics() -> None:
    values = np.array([0, 1, 2, 3, np.nan, np.inf], np.float32)
    found = describe_values(values)
    assert (found["least"], found["most"], found["mean"]) == (0, 3, 1.5)
    assert (found["zeros"], found["nan"], found["infinite"]) == (1, 1, 1)
    assert sum(found["counts"]) == 4
    assert describe_values(np.full(3, np.nan)) == describe_values(np.zeros((0, 2))) == {}
    assert describe_values(np.full((2, 2), 7))["counts"] == [4]
    big = weight_data(Type("n", "float32"), lambda: np.arange(3 << 20, dtype=np.float32))
    assert big["note"] == "Mean, deviation and histogram are of 1,048,576 elements."
    assert big["stats"]["most"] == (3 << 20) - 1


def test_values_without_statistics() -> None:
    def fail() -> Any:
        raise c2.NetFormatError("damaged", "w")

    assert "damaged" in weight_data(Type("2", "float32"), fail)["note"]
    assert "stats" not in weight_data(Type("1", "text"), lambda: np.array([b"1"], object))


def test_the_bundle_is_of_these_sources() -> None:
    done = subprocess.run([ROOT / "scripts" / "viewer", "--check"], capture_output=True, text=True, check=False)  # noqa: S603 - our own script
    assert done.returncode == 0, done.stderr
    bundle = (ROOT / "backend" / "caffe2_backend" / "picture" / "viewer.js").read_text("utf-8")
    assert bundle.count("Permission is hereby granted") == 2  # the licences of dagre and graphlib
    assert not re.search(r"</|<!--", bundle.partition("*/")[2])
    assert bundle.isascii()
    assert bundle.replace("\n", "").isprintable()
    assert len(bundle) < 150_000


@pytest.mark.parametrize("name", ["lstm", "gru_train"])
def test_a_page_is_small(name: str) -> None:
    assert len(picture_html(c2.load(MODELS / name))) < 150_000
