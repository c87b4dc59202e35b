"""The table of the kernels of onnxruntime's CUDA provider (scripts/cuda-kernels), as its own registry lists them.

Run with an onnxruntime-gpu of this Python in a folder: the registry is read in a process of its own, with libraries
that compute nothing in place of CUDA's, so that no GPU is needed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from caffe2_backend.runtime.devices.elf import needed_libraries
from gpu_suite.emulated_libraries import make_emulated_libraries
from gpu_suite.wheels import ROOT, download_one

TABLE: Final = ROOT / "backend" / "caffe2_backend" / "runtime" / "placement" / "cuda_kernels.txt"
_HEADER: Final = """\
# The kernels of the CUDA provider of onnxruntime {version}, as its own registry lists them (docs/OperatorKernels.md of
# onnxruntime, MIT licence, shows the same of another version). Written by scripts/cuda-kernels.
# operator, versions of the operator ("13-": of version 13 alone, until the next), types by type parameter
"""
_LATEST: Final = 2**31 - 1
_DOMAINS: Final = ("", "ai.onnx.ml", "com.microsoft")
_PROVIDER: Final = "CUDAExecutionProvider"
# Types that no Caffe2 net has.
_IGNORED: Final = ("float8", "float4", "int4", "uint4", "int2", "uint2", "optional", "string")
Types = dict[str, frozenset[str]]


def main() -> int:
    """Write the table."""
    if sys.argv[1:] == ["--list"]:
        print("\n".join(_lines()))  # noqa: T201 - for the process that started this one
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = download_one(folder)
        with zipfile.ZipFile(wheel) as file:
            file.extractall(folder / "site")
        version = wheel.name.split("-")[1]
        providers = list((folder / "site").glob("onnxruntime/capi/libonnxruntime_providers_[ct]*.so"))
        needed = [library for provider in providers for library in needed_libraries(provider)]
        make_emulated_libraries(providers, needed, folder / "libraries")
        path = os.pathsep.join([str(folder / "site"), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-P", "-m", "gpu_suite.kernel_table", "--list"],
            env={**os.environ, "PYTHONPATH": path, "LD_LIBRARY_PATH": str(folder / "libraries")},
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    TABLE.write_text(_HEADER.format(version=version) + done.stdout)
    return 0


def _lines() -> Iterable[str]:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    kernels: dict[tuple[str, str], dict[tuple[int, int], list[Types]]] = defaultdict(lambda: defaultdict(list))
    for found in state.get_all_opkernel_def():
        if found.provider == _PROVIDER and found.domain in _DOMAINS:
            types = {name: _plain(values) for name, values in found.type_constraints.items()}
            if all(types.values()):
                kernels[found.domain, found.op_name][tuple(found.version_range)].append(types)
    for (domain, op_type), ranges in sorted(kernels.items()):
        name = f"{domain}::{op_type}" if domain else op_type
        for first, last, types in joined({versions: merged(each) for versions, each in ranges.items()}):
            yield " ".join([name, f"{first}-{'' if last == _LATEST else last}", *_texts(types)])


def merged(kernels: Sequence[Types]) -> list[Types]:
    """Merge kernels that differ in the types of one parameter alone."""
    left = [dict(kernel) for kernel in kernels]
    for index in range(len(left) - 1, -1, -1):
        for other in left[:index]:
            different = [name for name in other if other[name] != left[index].get(name)]
            if other.keys() == left[index].keys() and len(different) <= 1:
                for name in different:
                    other[name] |= left[index][name]
                del left[index]
                break
    return left if len(left) == len(kernels) else merged(left)


def joined(ranges: Mapping[tuple[int, int], Sequence[Types]]) -> Iterable[tuple[int, int, Types]]:
    """Join ranges of versions that follow one another with the same types; the last, open one stays apart."""
    rows = sorted(
        ((first, last, types) for (first, last), each in ranges.items() for types in each),
        key=lambda row: (_texts(row[2]), row[0]),
    )
    made: list[tuple[int, int, Types]] = []
    for first, last, types in rows:
        if made and made[-1][2] == types and made[-1][1] + 1 == first and last != _LATEST:
            made[-1] = (made[-1][0], last, types)
        else:
            made.append((first, last, types))
    return sorted(made, key=lambda row: (row[0], _texts(row[2])))


def _texts(types: Types) -> list[str]:
    return [f"{name}={','.join(sorted(values))}" for name, values in sorted(types.items())]


def _plain(types: Iterable[Any]) -> frozenset[str]:
    """Return the element types of tensors, and of sequences of tensors, by their names in ONNX."""
    names = (re.sub(r"^(seq\()?tensor\((.*?)\)+$", r"\2", str(name)) for name in types)
    return frozenset(name for name in names if not name.startswith(_IGNORED))


if __name__ == "__main__":
    sys.exit(main())
