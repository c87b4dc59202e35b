"""CUDA and cuDNN without a GPU, so that onnxruntime's CUDA provider loads, places operators and runs without one.

Memory is host memory, and kernels compute nothing: what is real is all that the provider itself does. The functions
that matter are in the folder emulated_cuda; all others that the providers call return 0, or a handle where they make
one. Needs gcc and nm on x86-64 Linux.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_SOURCES: Final = Path(__file__).parent / "stand_ins" / "emulated_cuda"
_OURS: Final = re.compile(r"lib(cu|nvinfer|nvonnxparser)")
# Symbols without a version, by what their names begin with.
_UNVERSIONED: Final = {
    "createInfer": "libnvinfer.so.10", "getInfer": "libnvinfer.so.10", "getPluginRegistry": "libnvinfer.so.10",
    "createNvOnnx": "libnvonnxparser.so.10", "cuTensorMap": "libcuda.so.1",
}  # fmt: skip
# The providers open cuDNN by name, and the project the driver: their functions are not among the undefined symbols.
_CUDNN: Final = "libcudnn.so.9"
_CUDNN_FUNCTION: Final = re.compile(rb"\0(cudnn[A-Z][A-Za-z0-9_]+)(?=\0)")
_DRIVER: Final = "libcuda.so.1"
_DRIVER_FUNCTIONS: Final = (
    "cuInit", "cuCtxPushCurrent_v2", "cuCtxSetCurrent", "cuDevicePrimaryCtxRelease_v2",
)  # fmt: skip


def make_emulated_libraries(providers: Iterable[Path], needed: Iterable[str], folder: Path) -> None:
    """Write a library for each name of ``needed`` that is NVIDIA's, with every function that the providers call.

    Raises OSError without gcc or nm, CalledProcessError if one fails.
    """
    symbols: dict[str, set[str]] = defaultdict(set, {_DRIVER: set(_DRIVER_FUNCTIONS)})
    for provider in providers:
        for symbol in _undefined(provider):
            name, _, version = symbol.partition("@")
            library = version.lstrip("@") or next(
                (to for start, to in _UNVERSIONED.items() if name.startswith(start)), ""
            )
            symbols[library].add(name)
        symbols[_CUDNN].update(found.decode() for found in _CUDNN_FUNCTION.findall(provider.read_bytes()))
    folder.mkdir(parents=True, exist_ok=True)
    for library in sorted({_CUDNN, *(name for name in needed if _OURS.match(name))}):
        _build(folder, library, sorted(symbols[library]))


def _undefined(library: Path) -> list[str]:
    command = ["nm", "-D", "--undefined-only", "--with-symbol-versions", str(library)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - binutils
    return [line.split()[-1] for line in found.stdout.splitlines() if line.strip()]


def _build(folder: Path, library: str, names: list[str]) -> None:
    source, versions = folder / "source.c", folder / "versions.map"
    source.write_text("\n".join(["#include <stdlib.h>", "int unused_in_this_library;", *map(_stub, names)]) + "\n")
    versions.write_text(f"{library} {{ global: *; }};\n")
    written = _SOURCES / f"{library.removeprefix('lib').partition('.')[0]}.c"
    sources = [str(path) for path in (source, written) if path.exists()]
    command = ["gcc", "-shared", "-fPIC", "-w", "-o", str(folder / library), *sources, f"-Wl,-soname,{library}"]
    if not library.startswith(("libnv", _DRIVER, _CUDNN)):
        command.append(f"-Wl,--version-script={versions}")
    subprocess.run(command, check=True)  # noqa: S603 - the compiler, on the files above
    source.unlink()
    versions.unlink()


def _stub(name: str) -> str:
    """Return a function in C that does nothing; one of the same name in a source of ours takes its place."""
    weak = "__attribute__((weak)) "
    if re.match(r"(cublas|cudnn|curand)\w*Create", name):
        return f"{weak}int {name}(void **to) {{ return *to = calloc(1, 4096), 0; }}"
    if re.search("String$|Name$", name):
        return f'{weak}const char *{name}(int code) {{ return "emulated"; }}'
    return f"{weak}long {name}(void) {{ return 0; }}"
