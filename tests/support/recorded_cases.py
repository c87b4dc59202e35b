"""The recorded cases of an operator type: what real Caffe2 computed from given inputs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def cases(path: Path) -> Iterator[tuple[NetDef, dict[str, Parameter], dict[str, np.ndarray[Any, Any]], dict[str, Any]]]:
    """Yield the cases of a file: the net, its inputs as parameters, the expected outputs, and what was recorded."""
    with np.load(path) as data:
        for index, meta in enumerate(json.loads(data["meta"].tobytes())):
            proto = data[f"{index:03d}/proto"].tobytes()
            net = NetDef.FromString(proto) if meta["kind"] == "net" else NetDef(op=[OperatorDef.FromString(proto)])
            arrays = {}
            for side in ("in", "out"):
                for name in meta["inputs" if side == "in" else "outputs"]:
                    key = f"{side}/{name}"
                    if key in meta.get("strings", {}):
                        shape, values = meta["strings"][key]
                        array = np.empty(len(values), object)
                        array[:] = [value.encode("latin-1") for value in values]
                        arrays[key] = array.reshape(shape)
                    elif f"{index:03d}/{key}" in data:
                        arrays[key] = data[f"{index:03d}/{key}"]
            known = {
                name: Parameter(name, array.dtype, array.shape, array.copy, *meta.get("int8", {}).get(name, ()))
                for name, array in ((n, arrays[f"in/{n}"]) for n in meta["inputs"] if f"in/{n}" in arrays)
            }
            expected = {name: arrays[f"out/{name}"] for name in meta["outputs"] if f"out/{name}" in arrays}
            yield net, known, expected, meta
