"""The CUDA and cuDNN libraries of onnxruntime's CUDA provider: where they are found, loaded, and which are missing."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from caffe2_backend.runtime.devices.elf import needed_libraries

_PROVIDER: Final = "libonnxruntime_providers_cuda.so"
_CUDART: Final = re.compile(r"libcudart\.so\.(\d+)")
# Libraries of the system and of the driver: the loader finds them, or the driver's own check reports them.
_TOOLKIT: Final = re.compile(r"lib(cudart|cublas|cublasLt|curand|cufft|cudnn|nvrtc)\.so\.\d+")
# onnxruntime opens these by name when an operator first needs them, so that the provider does not list them. A cuDNN
# of CUDA 13, as of CUDA 12, is 9.
_OPENED_LATER: Final = ("libcudnn.so.9",)
# What cuDNN and some operators open by name, and most nets do not need.
_OPTIONAL: Final = ("libnvrtc.so.{major}", "libcufft.so.{cufft}")
_CUFFT_BEHIND: Final = 1  # cuFFT's version is that of CUDA less one


class CudaLibraries:
    """The libraries that the CUDA provider of an installed onnxruntime needs.

    Attributes:
        major: the CUDA version that the provider was built for; 0 if it is not known.
        missing: the libraries that the loader did not find, and which are in no package of this Python.
    """

    def __init__(self, provider: Path, folders: Sequence[Path]) -> None:
        try:
            needed = needed_libraries(provider)
        except (OSError, ValueError):
            needed = ()
        found = (match for name in needed if (match := _CUDART.fullmatch(name)))
        self.major = next((int(match[1]) for match in found), 0)
        wanted = [name for name in needed if _TOOLKIT.fullmatch(name)] + list(_OPENED_LATER if needed else ())
        # cublas needs cublasLt, and cuDNN its own parts: a library whose needs are not loaded yet is tried again.
        self.missing = tuple(_load_all(wanted, folders))
        if self.major:
            names = [name.format(major=self.major, cufft=self.major - _CUFFT_BEHIND) for name in _OPTIONAL]
            _load_all(names, folders)


@cache
def load_cuda_libraries(package: Path) -> CudaLibraries:
    """Load what the CUDA provider of the onnxruntime in a folder needs, from wherever this Python has it.

    onnxruntime's own ``preload_dlls`` looks beside its own package alone, and prints what it does not find; PyTorch's
    libraries may be in another folder of packages.
    """
    return CudaLibraries(package / "capi" / _PROVIDER, tuple(library_folders(sys.path)))


def library_folders(path: Iterable[str]) -> Iterator[Path]:
    """Yield the folders of shared libraries of NVIDIA's packages and of PyTorch, for folders of packages."""
    for entry in dict.fromkeys(path):
        packages = Path(entry)
        yield from sorted(packages.glob("nvidia/*/lib"))
        if (packages / "torch" / "lib").is_dir():
            yield packages / "torch" / "lib"


def _load_all(names: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """Load libraries; return those that cannot be."""
    waiting = list(names)
    while waiting:
        left = [name for name in waiting if not _load(name, folders)]
        if len(left) == len(waiting):
            break
        waiting = left
    return waiting


def _load(name: str, folders: Sequence[Path]) -> bool:
    """Load a library for all that is loaded later: from the loader's own folders, or from one of ours."""
    for candidate in (name, *(str(folder / name) for folder in folders if (folder / name).is_file())):
        try:
            ctypes.CDLL(candidate, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        return True
    return False
