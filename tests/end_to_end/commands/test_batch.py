"""A folder of models: one summary, crashes that cost one model, and going on where it stopped."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.paths import MODELS

from caffe2_backend.admission import load_proto
from caffe2_bridge import load
from caffe2_cli.commands import main
from caffe2_fleet.batch import run_batch
from caffe2_fleet.engines import local
from caffe2_fleet.job import Job
from caffe2_fleet.models.discovery import find_models
from caffe2_fleet.process.pool import ProcessPool
from caffe2_fleet.result import ModelResult
from caffe2_validation.options import ValidationOptions

AGAINST = ("workspace", "onnxruntime-cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "models"
    for name in ("lstm", "deep/gru"):
        shutil.copytree(MODELS / Path(name).name, root / name)
    (root / "broken").mkdir()
    (root / "broken" / "predict_net.pb").write_bytes(b"\xff\xff no net")
    (root / "bad.onnx").write_bytes(b"no model")
    return root


def test_every_model_is_found(folder: Path) -> None:
    names = [str(path.relative_to(folder)) for path in find_models(folder)]
    assert names == ["bad.onnx", "broken", "deep/gru", "lstm"]


def test_the_command(folder: Path, tmp_path: Path) -> None:
    words = [
        "batch",
        str(folder),
        "--jobs",
        "2",
        "-o",
        str(tmp_path / "out"),
        "--against",
        AGAINST[0],
        "--against",
        AGAINST[1],
    ]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2, result.output
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    verdicts = {model["model"]: model["verdict"] for model in summary["models"]}
    assert verdicts == {"bad.onnx": "could not run", "broken": "could not run", "deep/gru": "agree", "lstm": "agree"}
    assert summary["counts"]["agree"] == 2
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert '<a class="model" href="pages/deep/gru.html">' in page
    assert '<a href="onnx/deep/gru.onnx" title=' in page
    assert "http" not in page.replace("http-equiv", "")
    shutil.rmtree(folder / "broken")
    (folder / "bad.onnx").unlink()
    assert CliRunner().invoke(main, words).exit_code == 0
    assert CliRunner().invoke(main, ["batch", str(tmp_path / "nothing")]).exit_code == 2


def test_it_goes_on_where_it_stopped(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    real = local.answer

    def counted(job: Job, pool: ProcessPool) -> ModelResult:
        ran.append(job.task.name)
        return real(job, pool)

    monkeypatch.setattr(local, "answer", counted)
    (folder / "bad.onnx").unlink()
    options = ValidationOptions(runtimes=AGAINST)
    run_batch(folder, tmp_path / "out", options)
    assert ran == ["broken", "deep/gru", "lstm"]
    run_batch(folder, tmp_path / "out", options)
    assert len(ran) == 3
    with (folder / "lstm" / "predict_net.pb").open("ab") as file:
        file.write(b"\x0a\x01n")
    cut = next((tmp_path / "out" / "results").glob("broken-*"))
    cut.write_text("{", encoding="utf-8")
    run_batch(folder, tmp_path / "out", options)
    assert ran[3:] == ["broken", "lstm"]
    (tmp_path / "out" / "onnx" / "deep" / "gru.onnx").unlink()
    run_batch(folder, tmp_path / "out", options)
    assert ran[5:] == ["deep/gru"]


def test_a_model_that_takes_too_long_or_kills_its_process_costs_itself(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(folder / "deep")
    (late,) = (r for r in run_batch(folder, tmp_path / "late", seconds=0.01).results if r.model == "lstm")
    assert (late.verdict, "did not end" in late.reason) == ("crashed", True)
    monkeypatch.setattr(sys, "executable", "false")
    results = run_batch(folder, tmp_path / "dead").results
    assert {result.verdict for result in results} == {"crashed"}
    assert "status 1" in results[0].reason
    page = (tmp_path / "dead" / "pages" / "lstm.html").read_text(encoding="utf-8")
    assert "crashed" in page
    assert "status 1" in page


def test_nets_of_any_name_are_models(folder: Path) -> None:
    """Find a net beside its init net, one in both forms, a second net: each once; what is no net is none."""
    for name, source in (("a_predict_net.pb", "predict_net.pb"), ("a_init_net.pb", "init_net.pb"),
                         ("b.pbtxt", "predict_net.pbtxt"), ("a_predict_net.pbtxt", "predict_net.pbtxt")):  # fmt: skip
        shutil.copy(MODELS / "lstm" / source, folder / name)
    (folder / "notes.txt").write_text("see: the lstm\n", encoding="utf-8")
    (folder / "other.pb").write_bytes(b"\xff\xff")
    names = [str(path.relative_to(folder)) for path in find_models(folder)]
    assert names == ["a_predict_net.pb", "b.pbtxt", "bad.onnx", "broken", "deep/gru", "lstm"]


def test_the_matrix(folder: Path, tmp_path: Path) -> None:
    shutil.rmtree(folder / "deep")
    net = folder / "weightless.pbtxt"
    net.write_text(
        'external_input: "x" external_input: "w" external_input: "b" external_output: "y" '
        'op { type: "FC" input: "x" input: "w" input: "b" output: "y" }',
        encoding="utf-8",
    )
    words = ["batch", str(folder), "-o", str(tmp_path / "out"), "--matrix", "--random-weights"]
    against = [word for runtime in (*AGAINST, "onnx-reference") for word in ("--against", runtime)]
    result = CliRunner().invoke(main, [*words, *against])
    assert "workspace / onnxruntime" not in result.output  # names in order
    assert "onnxruntime-cpu / workspace: 2 agree, 0 disagree, 2 not both ran" in result.output
    assert "| bad.onnx | - | - | - | could not run: " in result.output
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    found = {model["model"]: model for model in summary["models"]}
    assert found["weightless.pbtxt"]["verdict"] == "agree"
    assert found["weightless.pbtxt"]["weights"] == 2
    assert len(found["lstm"]["matrix"]) == 9


RELU = 'name: "n" op { type: "Relu" input: "x" output: "h" } op { type: "Exp" input: "h" output: "y" } '
UNKNOWN = 'external_input: "x" external_output: "y" op { type: "NoSuchOperator" input: "x" output: "y" }'


def call(*words: object) -> Result:
    against = [word for runtime in AGAINST for word in ("--against", runtime)]
    return CliRunner().invoke(main, ["batch", *map(str, words), *against])


def test_models_pages_and_operators(folder: Path, tmp_path: Path) -> None:
    shutil.rmtree(folder / "broken")
    (folder / "unknown.pbtxt").write_text(UNKNOWN, encoding="utf-8")
    out = tmp_path / "out"
    result = call(folder, "-o", out)
    assert "4 models, 2 exported" in result.output
    assert "2 agree, 1 not covered, 1 could not run" in result.output.splitlines()
    assert "skipped: lstm/init_net.pb" not in result.output
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    skipped = {"path": "lstm/init_net.pb", "reason": "the init net of predict_net.pb", "is_part": True}
    assert skipped in summary["skipped"]
    found = {model["model"]: model for model in summary["models"]}
    net = load(folder / "lstm")
    assert (found["lstm"]["operators"], found["lstm"]["body_operators"]) == (len(net.predict_net.op), 3)
    exported = load_proto(out / found["lstm"]["onnx"])
    assert [value.name for value in exported.graph.output] == list(net.outputs)
    page = (out / found["deep/gru"]["page"]).read_text(encoding="utf-8")
    assert '<a href="../../index.html">' in page
    assert "<dd><code>caffe2-bridge" in page
    unknown = found["unknown.pbtxt"]
    assert (unknown["verdict"], unknown["onnx"], unknown["operators"]) == ("not covered", "", 1)
    errors = {finding["place"] for finding in unknown["findings"] if finding["severity"] == "error"}
    assert "net[0] NoSuchOperator" in errors
    assert "NoSuchOperator" in (out / unknown["page"]).read_text(encoding="utf-8")
    index = (out / "index.html").read_text(encoding="utf-8")
    assert "2 + 3" in index
    assert "tolerance of float32" in index


def test_a_manifest(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "lstm" / "init_net.pb", tmp_path / "weights.bin")
    (folder / "lstm" / "init_net.pb").unlink()
    (folder / "relu.pbtxt").write_text(RELU + 'external_input: "x" external_output: "y"', encoding="utf-8")
    manifest = folder / "models.toml"
    manifest.write_text(
        """
[[model]]
path = "lstm"
init = "../weights.bin"
opset = 17

[[model]]
path = "relu.pbtxt"
name = "small/relu"
inputs = { x = "float32[N,5]" }
outputs = ["h"]
rtol = 0
""",
        encoding="utf-8",
    )
    out = tmp_path / "out"
    result = call(manifest, "-o", out)
    assert result.exit_code == 0, result.output
    assert load_proto(out / "onnx" / "lstm.onnx").opset_import[0].version == 17
    graph = load_proto(out / "onnx" / "small" / "relu.onnx").graph
    assert [value.name for value in graph.output] == ["h"]
    rows, columns = graph.input[0].type.tensor_type.shape.dim
    assert (rows.dim_param, columns.dim_value) == ("N", 5)
    page = (out / "pages" / "small" / "relu.html").read_text(encoding="utf-8")
    assert "outputs (3)" in page
    assert "rtol 0, atol 1e-05 at any depth" in page
    manifest.write_text("[[model]]\npath = 'lstm'\nopset = 99", encoding="utf-8")
    refused = call(manifest, "-o", out)
    assert refused.exit_code == 2
    assert "model 1: opset must be" in refused.output
