"""A stand-in for Pyodide: this module, run as a script, uses the functions for pages without what WebAssembly lacks.

No module of ``ABSENT`` can be imported, no thread starts, and onnxruntime is not installed. Arguments: a model's files.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Final, NoReturn

ABSENT: Final = (
    "mmap", "fcntl", "resource", "pwd", "grp", "termios", "multiprocessing", "_multiprocessing", "subprocess",
    "concurrent.futures.process", "socket", "_socket", "ssl", "_ssl", "sqlite3", "onnxruntime", "torch",
    "click", "rich",
)  # fmt: skip
_SIGNALS: Final = ("alarm", "setitimer", "pthread_sigmask", "pthread_kill", "sigwait")
# They import modules above, which Pyodide has, or for which their builds have others.
_OTHERS: Final = (
    "numpy", "google.protobuf", "onnx", "onnx.reference", "onnx.version_converter", "onnx_ir", "onnxscript",
    "onnxscript.optimizer", "onnxscript.version_converter", "asyncio", "concurrent.futures", "logging.handlers",
)  # fmt: skip


def pretend() -> None:
    """Remove what WebAssembly lacks. What is imported already keeps it: Python's own modules, numpy, onnx."""
    for name in _OTHERS:
        importlib.import_module(name)
    for name in [name for name in sys.modules if name.partition(".")[0] in ABSENT]:
        del sys.modules[name]
    sys.modules.update(dict.fromkeys(ABSENT))  # type: ignore[arg-type] # None: its import fails
    for name in _SIGNALS:
        delattr(signal, name)
    threading.Thread.start = _refuse  # type: ignore[method-assign,assignment]


def _refuse(_: threading.Thread) -> NoReturn:
    raise RuntimeError("can't start new thread")


def main(paths: list[Path]) -> dict[str, Any]:
    """Check, draw, export and import a model, and synthesize its inputs. Raises whatever fails."""
    pretend()
    from caffe2_cli import browser

    files = {path.name: path.read_bytes() for path in paths}
    found, drawn, made = browser.findings(files), browser.picture(files), browser.synthesize(files)
    exported = {file["name"]: file["data"] for file in browser.convert(files)["files"]}
    imported = browser.convert(exported)
    return {
        "found": found,
        "drawn": "data-picture" in drawn["html"],
        "inputs": {tensor["name"]: tensor["dims"] for tensor in made["tensors"]},
        "exported": {name: len(data) for name, data in exported.items()},
        "found in the export": browser.findings(exported),
        "drawn of the export": "data-picture" in browser.picture(exported)["html"],
        "imported": {file["name"]: len(file["data"]) for file in imported["files"]},
        "imported modules": sorted(name for name in ABSENT if sys.modules.get(name) is not None),
    }


if __name__ == "__main__":
    json.dump(main([Path(argument) for argument in sys.argv[1:]]), sys.stdout)
