"""The command scripts/gpu, rehearsed with the CPU under the name of CUDA."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_suite.__main__ import main
from gpu_suite.emulated_libraries import make_emulated_libraries
from support.elf import write_library
from support.paths import ROOT

PROVIDER = "libonnxruntime_providers_cuda.so"


def rehearse(tmp_path: Path, stages: str, **environment: str) -> tuple[subprocess.CompletedProcess[str], Any]:
    report = tmp_path / "report.json"
    done = subprocess.run(  # noqa: S603 - the project's script
        [ROOT / "scripts" / "gpu", "--stand-in", "--json", report, "--stages", stages],
        env={**os.environ, "PYTHON": sys.executable, **environment}, cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done, json.loads(report.read_text()) if report.exists() else None


def test_the_command_starts_without_the_project_and_its_packages() -> None:
    """A machine with a GPU has neither: the command installs them from the wheels."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "gpu_suite", "--help"],
        env={"PYTHONPATH": str(ROOT / "tests")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "--wheels" in done.stdout


def test_the_first_stage_runs_on_the_stand_in(tmp_path: Path) -> None:
    done, report = rehearse(tmp_path, "machine")

    assert done.returncode == 0, done.stdout + done.stderr
    (machine,) = report["stages"]
    assert [row["status"] for row in machine["rows"] if row["name"] in ("CUDA", "first run")] == ["passed", "passed"]
    assert "rehearsal" in report["device"]
    assert (tmp_path / "report.md").exists()


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        ("12040", "the driver supports CUDA 12.4, and this onnxruntime needs CUDA 98: update the driver"),
        ("98000", "libcudart.so.98, libcublas.so.98, libcudnn.so.9 cannot be loaded"),
    ],
)
def test_a_machine_that_cannot_run_is_reported_at_once(tmp_path: Path, driver: str, reason: str) -> None:
    write_library(tmp_path / "capi" / PROVIDER, ["libcudart.so.98", "libcublas.so.98"])

    done, report = rehearse(
        tmp_path, "machine,models", GPU_SUITE_DRIVER=driver, GPU_SUITE_PROVIDER=str(tmp_path), LD_LIBRARY_PATH=""
    )

    assert done.returncode == 1
    machine, models = report["stages"]
    assert machine["reason"].startswith(reason)
    assert (models["outcome"], models["reason"]) == ("not run", "the stage 'machine' failed")
    assert reason in done.stdout


@pytest.mark.slow
def test_every_stage_runs_on_the_stand_in(tmp_path: Path) -> None:
    done, report = rehearse(tmp_path, "machine,copies,models,training,tests")

    assert done.returncode == 0, done.stdout + done.stderr
    assert [stage["outcome"] for stage in report["stages"]] == ["passed"] * 5


@pytest.mark.parametrize("stand_in", ["emulated-cuda", "webgpu"])
def test_a_stand_in_that_cannot_be_had_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stand_in: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert main([f"--{stand_in}", "--json", str(tmp_path / "r.json")]) == 2

    lacking = {"emulated-cuda": "gcc, nm are not installed", "webgpu": "unshare is not installed"}[stand_in]
    assert capsys.readouterr().err == f"scripts/gpu: {lacking}\n"


@pytest.mark.skipif(shutil.which("gcc") is None or shutil.which("nm") is None, reason="needs gcc and nm")
def test_emulated_libraries_have_what_a_provider_calls(tmp_path: Path) -> None:
    source, provider = tmp_path / "provider.c", tmp_path / "provider.so"
    source.write_text(
        "int cudaGetDeviceCount(int *);\n"
        'const char cudnn[] = "\\0cudnnSetStream";\n'
        "int devices(void) { int count = 0; cudaGetDeviceCount(&count); return count; }\n"
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", provider, source], check=True)  # noqa: S603, S607 - the compiler

    make_emulated_libraries([provider], ["libcudart.so.13", "libc.so.6"], tmp_path / "libraries")

    assert sorted(path.name for path in (tmp_path / "libraries").iterdir()) == ["libcudart.so.13", "libcudnn.so.9"]
    count = ctypes.c_int()
    assert ctypes.CDLL(str(tmp_path / "libraries" / "libcudart.so.13")).cudaGetDeviceCount(ctypes.byref(count)) == 0
    assert count.value == 1
    assert hasattr(ctypes.CDLL(str(tmp_path / "libraries" / "libcudnn.so.9")), "cudnnSetStream")


def test_wrong_use_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()

    assert main(["--prepare", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"scripts/gpu: {tmp_path} is not empty\n"
    assert main(["--wheels", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.endswith("nowhere is not a folder\n")
    with pytest.raises(SystemExit):
        main(["--stages", "machine,moon"])
    assert "unknown stage moon: the stages are machine, models, " in capsys.readouterr().err


def test_a_software_gpu_needs_the_right_to_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unshare = tmp_path / "unshare"
    unshare.write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2\nexit 1\n")
    unshare.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert main(["--webgpu", "--json", str(tmp_path / "r.json")]) == 2
    assert "no card can be made up for the software GPU: unshare failed" in capsys.readouterr().err
