"""Batches that are interrupted by signals, as Ctrl-C and the schedulers of clusters send them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from caffe2_fleet.process.model_process import ModelProcess
from caffe2_fleet.task import ModelTask
from caffe2_validation.options import ValidationOptions

# A stand-in for the server: it notes which models it runs, and takes long for "b" until there is a file "go".
SERVER = """
import json, pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print('{"ready": 1}', flush=True)
for line in sys.stdin:
    request = json.loads(line)
    name, target = json.loads(request["task"])["name"], pathlib.Path(request["target"])
    with (target.parent / f"ran {name}").open("a") as file:
        file.write("x")
    if name == "b.onnx" and not (target.parent / "go").exists():
        time.sleep(60)
    page = target / request["page"]
    page.parent.mkdir(exist_ok=True)
    page.touch()
    print(json.dumps({"verdict": "agree"}), flush=True)
"""
SCRIPT = """
import sys
from caffe2_fleet.process import model_process
model_process._SERVER = sys.argv.pop(1)
from caffe2_cli.commands import main
main(prog_name="caffe2-bridge")
"""


def start(folder: Path) -> subprocess.Popen[str]:
    words = ["batch", str(folder / "models"), "-o", str(folder / "out"), "--against", "onnxruntime-cpu", "--jobs", "1"]
    return subprocess.Popen(  # noqa: S603 - this Python, with a script of our own
        [sys.executable, "-c", SCRIPT, SERVER, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, start_new_session=True,
    )  # fmt: skip


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 120
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert path.exists()


def children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the children of a process in /proc")
@pytest.mark.parametrize("receivers", ["the process", "its group", "every process"])
def test_ctrl_c(receivers: str, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for name in "abc":
        (tmp_path / "models" / f"{name}.onnx").write_text(name)
    process = start(tmp_path)
    wait_for(tmp_path / "ran b.onnx")
    workers = children(process.pid)
    assert workers
    if receivers == "the process":
        process.send_signal(signal.SIGINT)
    else:
        for worker in workers if receivers == "every process" else ():
            os.kill(worker, signal.SIGINT)
        os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert "interrupted" in err
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    assert not (tmp_path / "ran c.onnx").exists()  # what waited does not run
    (record,) = (tmp_path / "out" / "results").iterdir()
    assert json.loads(record.read_text())["model"] == "a.onnx"
    assert not (tmp_path / "out" / "summary.json").exists()
    (tmp_path / "go").touch()
    again = start(tmp_path)
    out, err = again.communicate(timeout=120)
    assert again.returncode == 0, out + err
    assert {path.name: path.read_text() for path in tmp_path.glob("ran *")} == {
        "ran a.onnx": "x", "ran b.onnx": "xx", "ran c.onnx": "x",
    }  # fmt: skip


def test_a_model_process_ignores_interrupts(tmp_path: Path) -> None:
    process = ModelProcess()
    process._read_line(120, None)
    process._started = True
    os.kill(process._process.pid, signal.SIGINT)
    task = ModelTask("a", str(tmp_path / "absent.onnx"))
    request = {"task": task.to_json(), "options": ValidationOptions().to_json(), "target": "", "plugins": []}
    assert process.ask(request, 60)["verdict"] == "could not run"
    process.close()
