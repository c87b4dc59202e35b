"""CUDA, cuDNN and TensorRT libraries that compute nothing, so that onnxruntime's CUDA provider loads without a GPU.

They suffice to ask the provider which kernels it has. Needs gcc and nm on x86-64 Linux.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_OURS: Final = re.compile(r"lib(cu|nvinfer|nvonnxparser)")
# Symbols without a version, by what their names begin with.
_UNVERSIONED: Final = {
    "createInfer": "libnvinfer.so.10", "getInfer": "libnvinfer.so.10", "getPluginRegistry": "libnvinfer.so.10",
    "createNvOnnx": "libnvonnxparser.so.10", "cuTensorMap": "libcuda.so.1",
}  # fmt: skip


def make_empty_libraries(providers: Iterable[Path], needed: Iterable[str], folder: Path) -> None:
    """Write a library for each name of ``needed`` that is NVIDIA's, with every function that the providers call.

    The functions return 0, those that register GPU code a pointer to zeros.
    """
    symbols: dict[str, set[str]] = defaultdict(set)
    for provider in providers:
        for symbol in _undefined(provider):
            name, _, version = symbol.partition("@")
            library = version.lstrip("@") or next(
                (to for start, to in _UNVERSIONED.items() if name.startswith(start)), ""
            )
            symbols[library].add(name)
    folder.mkdir(parents=True, exist_ok=True)
    for library in sorted({name for name in needed if _OURS.match(name)}):
        _build(folder, library, sorted(symbols[library]))


def _undefined(library: Path) -> list[str]:
    command = ["nm", "-D", "--undefined-only", "--with-symbol-versions", str(library)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - binutils
    return [line.split()[-1] for line in found.stdout.splitlines() if line.strip()]


def _build(folder: Path, library: str, names: list[str]) -> None:
    lines = ["static long zeros[64];", "int unused_in_this_library;"]
    lines += [f"long {name}(void) {{ return {'(long)zeros' if 'Register' in name else '0'}; }}" for name in names]
    source, versions = folder / "source.c", folder / "versions.map"
    source.write_text("\n".join(lines) + "\n")
    versions.write_text(f"{library} {{ global: *; }};\n")
    command = ["gcc", "-shared", "-fPIC", "-w", "-o", str(folder / library), str(source), f"-Wl,-soname,{library}"]
    if not library.startswith(("libnv", "libcuda.")):
        command.append(f"-Wl,--version-script={versions}")
    subprocess.run(command, check=True)  # noqa: S603 - the compiler, on the file above
    source.unlink()
    versions.unlink()
