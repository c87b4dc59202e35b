"""A page that loads a model in the browser, runs the sample, and compares the outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.values import Array
from caffe2_bridge.diagnostics import OptionError
from caffe2_deploy.contents import Contents, Port

_PAGE: Final = Path(__file__).with_name("web_page.html")
# Types that onnxruntime-web takes; those of 64 bits travel as text, as JavaScript's JSON has no such integers.
_TYPES: Final = frozenset(
    ("bool", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "string")
)


def files(contents: Contents) -> dict[str, bytes]:
    """Return the page, its sample and the list of what it needs, by path.

    Raises OptionError if an element type is one that the runtime does not have.
    """
    ports = {port.name: port for port in (*contents.inputs, *contents.outputs)}
    for port in ports.values():
        if port.dtype not in _TYPES:
            raise OptionError(f"onnxruntime-web has no {port.dtype} tensors, as {port.name!r} is")
    sample = {
        "inputs": {name: _tensor(ports[name], array) for name, array in contents.sample.items()},
        "outputs": {name: _tensor(ports[name], array) for name, array in contents.expected.items()},
    }
    needs = {
        "private": True,
        "scripts": {"start": "python3 -m http.server 8000"},
        "dependencies": {"onnxruntime-web": "^1.20.0"},
    }
    return {
        "index.html": _PAGE.read_text(encoding="utf-8").replace("{{name}}", contents.name).encode(),
        "sample.json": (json.dumps(sample) + "\n").encode(),
        "package.json": (json.dumps(needs, indent=1) + "\n").encode(),
    }


def _tensor(port: Port, array: Array) -> dict[str, Any]:
    values = array.ravel().tolist()
    if port.dtype in ("int64", "uint64"):
        values = [str(value) for value in values]
    elif np.issubdtype(array.dtype, np.floating):
        values = [value if np.isfinite(value) else str(value) for value in values]
    return {"type": port.dtype, "dims": list(array.shape), "data": values}
