"""Installs the stand-ins for a GPU in a folder of their own: wheels, libraries, a software GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpu_suite.emulated_libraries import make_emulated_libraries
from gpu_suite.wheels import RUNTIME, WheelError, download_one

CPU: Final = "cpu"
FOLDER: Final = Path(__file__).parent
_WEBGPU: Final = "onnxruntime-ep-webgpu"
_PROVIDER: Final = "onnxruntime/capi/libonnxruntime_providers_cuda.so"
_SOFTWARE_GPU: Final = Path("usr/lib/chromium")  # where Debian's browser has SwiftShader and a Vulkan loader
_PACKAGE: Final = "chromium-common"
_ICD: Final = "vk_swiftshader_icd.json"


@dataclass(frozen=True)
class Made:
    """A stand-in: folders that come first on Python's path, further variables, the words before commands."""

    path: Sequence[Path]
    variables: Mapping[str, str]
    prefix: Sequence[str] = field(default=())


def make_emulated_cuda(folder: Path, wheel_folder: Path | None) -> Made:
    """Unpack onnxruntime-gpu beside CUDA libraries that compute nothing. Raises WheelError if that cannot be done."""
    # The command starts on machines that have neither the packages nor their requirements yet.
    from caffe2_backend.runtime.devices.elf import needed_libraries

    _require_programs("gcc", "nm")
    site, libraries = folder / "emulated-cuda", folder / "libraries"
    if not (site / _PROVIDER).is_file():
        _unpack(RUNTIME, folder, wheel_folder, site)
    provider = site / _PROVIDER
    try:
        make_emulated_libraries([provider], needed_libraries(provider), libraries)
    except subprocess.CalledProcessError as error:
        raise WheelError(f"{error.cmd[0]} failed") from None
    return Made([site], {"LD_LIBRARY_PATH": str(libraries)})


def make_webgpu(folder: Path, wheel_folder: Path | None) -> Made:
    """Unpack onnxruntime's WebGPU provider, and a software GPU. Raises WheelError if that cannot be done."""
    _require_programs("unshare")
    mapped = [] if os.geteuid() == 0 else ["--map-root-user"]
    prefix = ["unshare", "--mount", *mapped, str(FOLDER / "webgpu" / "one_gpu.sh")]
    tried = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)  # noqa: S603 - our own script
    if tried.returncode:
        raise WheelError(f"no card can be made up for the software GPU: {tried.stderr.strip()}")
    site = folder / "webgpu"
    if not site.is_dir():
        _unpack(_WEBGPU, folder, wheel_folder, site)
    vulkan = next((root / _SOFTWARE_GPU for root in (Path("/"), folder / "debian") if _has_gpu(root)), None)
    if vulkan is None:
        _unpack_gpu(folder / "debian")
        vulkan = folder / "debian" / _SOFTWARE_GPU
    return Made(
        [FOLDER / "webgpu", site],
        {"LD_LIBRARY_PATH": str(vulkan), "VK_ICD_FILENAMES": str(vulkan / _ICD)},
        prefix,
    )


def _has_gpu(root: Path) -> bool:
    return (root / _SOFTWARE_GPU / _ICD).is_file()


def _unpack(package: str, folder: Path, wheel_folder: Path | None, site: Path) -> None:
    found = [] if wheel_folder is None else sorted(wheel_folder.glob(f"{package.replace('-', '_')}-*.whl"))
    wheel = found[-1] if found else download_one(folder / "wheels", package)
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site, [name for name in file.namelist() if "providers_tensorrt" not in name])
    if not found:
        wheel.unlink()


def _unpack_gpu(target: Path) -> None:
    """Unpack Debian's package with SwiftShader, without installing it."""
    _require_programs("apt-get", "dpkg-deb")
    target.mkdir(parents=True, exist_ok=True)
    commands = [["apt-get", "download", "--quiet", _PACKAGE]]
    if subprocess.run(commands[0], cwd=target, capture_output=True, check=False).returncode:  # noqa: S603 - apt
        commands.insert(0, ["apt-get", "update", "--quiet"])
        for command in commands:
            done = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)  # noqa: S603 - apt
        if done.returncode:
            raise WheelError(f"no software GPU: install Debian's package, apt-get install {_PACKAGE}")
    for package in target.glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", str(package), str(target)], check=True)  # noqa: S603, S607 - dpkg
        package.unlink()
    if not (target / _SOFTWARE_GPU / _ICD).is_file():
        raise WheelError(f"Debian's {_PACKAGE} has no software GPU here: apt-get install chromium")


def _require_programs(*names: str) -> None:
    lacking = [name for name in names if shutil.which(name) is None]
    if lacking:
        raise WheelError(f"{', '.join(lacking)} {'are' if len(lacking) > 1 else 'is'} not installed")
