"""Libraries that the CUDA provider needs: read, found in folders of packages, and named where they are missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from support.elf import write_library

from caffe2_backend.runtime.devices.cuda_libraries import CudaLibraries, library_folders
from caffe2_backend.runtime.devices.elf import needed_libraries
from caffe2_backend.runtime.sessions import onnxruntime_library
from caffe2_backend.runtime.sessions.onnxruntime_library import missing_cuda, require_provider
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_bridge.diagnostics import RunError

NEEDED = ("libcudart.so.98", "libcublas.so.98", "libstdc++.so.6")


def test_needed_libraries_are_read(tmp_path: Path) -> None:
    write_library(tmp_path / "library.so", NEEDED)

    assert needed_libraries(tmp_path / "library.so") == NEEDED


def test_a_real_library_is_read() -> None:
    import onnxruntime

    (library,) = (Path(onnxruntime.__file__).parent / "capi").glob("onnxruntime_pybind11_state*.so")

    assert any(name.startswith("libc.so") for name in needed_libraries(library))


@pytest.mark.parametrize("data", [b"", b"text" * 40, b"\x7fELF\x01" + bytes(200)])
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)

    with pytest.raises(ValueError, match=r"ELF|empty"):
        needed_libraries(tmp_path / "file")


def test_missing_libraries_are_named(tmp_path: Path) -> None:
    write_library(tmp_path / "provider.so", NEEDED)

    found = CudaLibraries(tmp_path / "provider.so", [])

    assert found.major == 98
    assert found.missing == ("libcudart.so.98", "libcublas.so.98", "libcudnn.so.9")


def test_no_provider_needs_nothing(tmp_path: Path) -> None:
    found = CudaLibraries(tmp_path / "nothing.so", [])

    assert (found.major, found.missing) == (0, ())


def test_folders_of_packages_and_of_torch(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("nvidia/cu13/lib", "nvidia/cudnn/lib", "torch/lib")]
    for folder in folders:
        folder.mkdir(parents=True)

    assert list(library_folders([str(tmp_path), str(tmp_path), str(tmp_path / "other")])) == folders


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_libraries_of_packages_are_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "nvidia" / "cu97" / "lib"
    folder.mkdir(parents=True)
    needs = ["-L", str(folder), "-l:libcudart.so.97"]
    for name, words in (("libcudart.so.97", []), ("libcublas.so.97", needs)):
        (tmp_path / "empty.c").write_text("")
        command = ["gcc", "-shared", "-o", str(folder / name), str(tmp_path / "empty.c"), f"-Wl,-soname,{name}",
                   "-Wl,--no-as-needed", *words]  # fmt: skip
        subprocess.run(command, check=True)  # noqa: S603 - the compiler, on the file above
    write_library(tmp_path / "provider.so", ["libcublas.so.97", "libcudart.so.97"])

    found = CudaLibraries(tmp_path / "provider.so", list(library_folders([str(tmp_path)])))

    assert "libcublas.so.97" not in found.missing
    assert "libcudart.so.97" not in found.missing


@pytest.mark.parametrize(
    ("driver", "needed", "reason"),
    [
        (12040, NEEDED, "the driver supports CUDA 12.4, and this onnxruntime needs CUDA 98: update the driver"),
        (98000, NEEDED, r"libcudart.so.98, libcublas.so.98, libcudnn.so.9 cannot be loaded \(install onnxruntime-gpu"),
        (98000, (), ""),
    ],
)
def test_why_cuda_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: int, needed: tuple[str, ...], reason: str
) -> None:
    if needed:
        write_library(tmp_path / "provider.so", needed)
    libraries = CudaLibraries(tmp_path / "provider.so", [])
    monkeypatch.setattr(onnxruntime_library, "has_cuda", lambda: True)
    monkeypatch.setattr(onnxruntime_library, "cuda_devices", lambda: 1)
    monkeypatch.setattr(onnxruntime_library, "driver_version", lambda: driver)
    monkeypatch.setattr(onnxruntime_library, "cuda_libraries", lambda: libraries)

    found = missing_cuda()

    assert bool(found) == bool(reason)
    if reason:
        with pytest.raises(RunError, match=f"cuda:0 is not available: {reason}"):
            onnxruntime_library.real_device("cuda:0", SessionOptions())


def test_a_session_that_fell_back_to_the_cpu_is_refused() -> None:
    class FellBack:
        def get_providers(self) -> list[str]:
            return ["CPUExecutionProvider"]

    with pytest.raises(RunError, match="could not start CUDA for cuda:1"):
        require_provider(FellBack(), "cuda:1")
    require_provider(FellBack(), "cpu")
