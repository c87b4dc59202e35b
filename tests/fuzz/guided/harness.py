"""A harness for Atheris: ``python -m fuzz.guided.harness net|onnx [CORPUS] [-max_total_time=60 ...]``.

``net`` loads, checks and exports a NetDef, ``onnx`` imports a model. Errors of the project are the expected end of most
inputs; anything else ends the process, with the input in a file, as libFuzzer does. Started by ``scripts/fuzz guided``,
and by OSS-Fuzz as it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore] # not among the tools

os.environ["CAFFE2_BRIDGE_DEBUG"] = "1"  # a fault of a converter is raised, not reported
with atheris.instrument_imports(include=["caffe2_bridge", "caffe2_frontend", "caffe2_backend"]):
    from caffe2_backend import to_netdef
    from caffe2_bridge import BridgeError
    from caffe2_bridge.diagnostics.log import muted
    from caffe2_frontend import check, to_onnx

_LARGEST: Final = 1 << 16  # bytes: larger inputs rarely hit anything but weights


def _export(data: bytes) -> None:
    check(data)
    to_onnx(data)


_KINDS: Final[dict[str, Callable[[bytes], object]]] = {"net": _export, "onnx": to_netdef}


def harness(kind: str) -> Callable[[bytes], None]:
    """Return the function that Atheris calls with each input."""
    call = _KINDS[kind]

    def run(data: bytes) -> None:
        if len(data) <= _LARGEST:
            try:
                with muted():
                    call(data)
            except BridgeError:
                pass

    return run


def warm_up(run: Callable[[bytes], None], inputs: Iterable[bytes]) -> None:
    """Run inputs before the search: what is imported late is instrumented then, and not new to the search."""
    with atheris.instrument_imports(include=["caffe2_bridge", "caffe2_frontend", "caffe2_backend"]):
        for data in inputs:
            run(data)


def main(kind: str, program: list[str], arguments: list[str]) -> None:
    """Search until libFuzzer's options, or a finding, end the process."""
    run = harness(kind)
    folders = [Path(each) for each in arguments if not each.startswith("-")]
    warm_up(run, (path.read_bytes() for folder in folders for path in sorted(folder.iterdir())))
    atheris.Setup([*program, *arguments], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[:1], sys.argv[2:])
