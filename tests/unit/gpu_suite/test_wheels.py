"""The wheels of a machine with a GPU: repacked, cut into parts, joined, installed before what the machine has."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from gpu_suite import parts, repack, wheels
from gpu_suite.wheels import Requirement, WheelError


def make_wheel(folder: Path, name: str, version: str, files: Mapping[str, str]) -> Path:
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    members = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{member},,\n" for member in [*members, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as file:
        for member, text in {**members, f"{info}/RECORD": record}.items():
            file.writestr(member, text)
    return path


def test_a_file_is_dropped_from_a_wheel_and_its_record(tmp_path: Path) -> None:
    files = {"pkg/__init__.py": "", "pkg/libonnxruntime_providers_tensorrt.so": "x" * 1000}
    wheel = make_wheel(tmp_path, "pkg", "1.0", files)

    assert repack.without(wheel, lambda name: "tensorrt" in name) == ["pkg/libonnxruntime_providers_tensorrt.so"]

    with zipfile.ZipFile(wheel) as file:
        record = [row[0] for row in csv.reader(file.read("pkg-1.0.dist-info/RECORD").decode().splitlines())]
        assert sorted(record) == sorted(file.namelist())
    assert repack.without(wheel, lambda name: "tensorrt" in name) == []


@pytest.mark.parametrize("limit", [1, 7, 100, 10_000])
def test_parts_are_joined(tmp_path: Path, limit: int) -> None:
    contents = {"a": bytes(range(250)), "b": b"", "c": b"xyz", "d": b"0123456789" * 10}
    folder, joined = tmp_path / "parts", tmp_path / "joined"
    folder.mkdir()
    for name, data in contents.items():
        (folder / name).write_bytes(data)

    made = parts.cut([folder / name for name in contents], folder, limit)

    assert len(made) == -(-353 // limit)
    for part in made:
        assert sum(path.stat().st_size for path in part.iterdir() if path.name != parts.MANIFEST) <= limit
    assert {path.name: path.read_bytes() for path in parts.join([folder], joined)} == contents


def test_missing_and_damaged_parts_are_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(100)))
    first, second, third = parts.cut([tmp_path / "a"], tmp_path, 40)

    with pytest.raises(parts.PartsError, match="part-2 of the wheels is missing"):
        parts.join([first, third], tmp_path / "joined")

    next(second.glob("a.*")).write_bytes(b"?" * 40)
    with pytest.raises(parts.PartsError, match="a is damaged"):
        parts.join([tmp_path], tmp_path / "joined")
    assert not (tmp_path / "joined" / "a").exists()
    assert parts.join([tmp_path / "joined"], tmp_path) == []


def test_requirements_are_those_of_the_project() -> None:
    needed = wheels.requirements()

    assert needed[0].name == "onnxruntime-gpu"
    assert {"numpy", "onnx", "pytest"} <= {one.name for one in needed}
    assert wheels.unmet([Requirement("numpy", "1.0"), Requirement("numpy", "999.1"), Requirement("nowhere", "")]) == [
        Requirement("numpy", "999.1"),
        Requirement("nowhere", ""),
    ]


def test_folders_without_wheels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WheelError, match="is not a folder"):
        wheels.wheel_files(tmp_path / "nowhere")
    with pytest.raises(WheelError, match="holds no wheels"):
        wheels.wheel_files(tmp_path)


def test_what_no_wheel_brings_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "requirements", lambda: [Requirement("nowhere", "2.0"), Requirement("numpy", "1.0")])

    with pytest.raises(WheelError, match=r"^nowhere>=2.0 is neither installed nor in the folder of wheels$"):
        wheels.install([], tmp_path)


def test_a_failure_of_pip_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "requirements", lambda: [Requirement("nowhere", "")])
    (tmp_path / "nowhere-1.0-py3-none-any.whl").write_text("damaged")

    with pytest.raises(WheelError, match=r"^pip install failed: .*nowhere"):
        wheels.install(wheels.wheel_files(tmp_path), tmp_path / "site")


def test_the_onnxruntime_of_the_machine_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a package of the same name in the folder comes first; the machine's own, and its other ones, stay."""
    files = {"onnxruntime/__init__.py": "version = 'of the wheel'", "onnxruntime/capi.py": "x = 1"}
    make_wheel(tmp_path, "onnxruntime_gpu", "99.0", files)
    make_wheel(tmp_path, "numpy", "0.1", {"numpy/__init__.py": "version = 'too old'"})
    monkeypatch.setattr(
        wheels, "requirements", lambda: [Requirement("onnxruntime-gpu", "99.0"), Requirement("numpy", "1.0")]
    )

    assert wheels.install(wheels.wheel_files(tmp_path), tmp_path / "site") == ["onnxruntime-gpu"]

    code = (
        "import onnxruntime, onnxruntime.capi, numpy; print(onnxruntime.version, onnxruntime.capi.x, numpy.__version__)"
    )
    found = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.startswith("of the wheel 1 ")
    assert "too old" not in found.stdout
