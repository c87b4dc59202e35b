"""Replay calls of a module ``workspace``, real Caffe2's or this project's.

usage: <Caffe2's python> caffe2_transcript.py CALLS.json RESULTS.json

A call is the name of a function and its arguments; a result is its value or the kinds of its exception.
"""

# ruff: noqa: PTH123, UP006, UP035 - as plain as the oldest Python of Caffe2 needs it

import base64
import json
import struct
import sys
from types import SimpleNamespace
from typing import Any, Dict, List

import numpy as np


def encode(value: Any) -> Any:  # noqa: PLR0911 - one for each kind of value
    """Turn a value into JSON: arrays, bytes, messages, tuples and dicts of them."""
    if hasattr(value, "SerializeToString"):
        value = value.SerializeToString()
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype == object:
        return {"strings": [encode(item) for item in value.reshape(-1).tolist()], "shape": list(value.shape)}
    if isinstance(value, np.ndarray):
        data = base64.b64encode(value.tobytes()).decode()
        return {"array": data, "dtype": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {"dict": sorted([str(key), encode(item)] for key, item in value.items())}
    return value


def decode(value: Any) -> Any:
    """Return the value that was encoded; tuples are lists."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "bytes" in value:
        return base64.b64decode(value["bytes"])
    if "strings" in value:
        out = np.empty(len(value["strings"]), object)
        out[:] = [decode(item) for item in value["strings"]]
        return out.reshape(value["shape"])
    if "array" in value:
        return np.frombuffer(base64.b64decode(value["array"]), value["dtype"]).reshape(value["shape"]).copy()
    return {key: decode(item) for key, item in value["dict"]}


def replay(workspace: Any, calls: List[Any]) -> List[Dict[str, Any]]:
    """Make the calls in a reset workspace, and return their results, encoded."""
    workspace.ResetWorkspace()
    objects = SimpleNamespace()
    results = []
    for name, args in calls:
        try:
            results.append({"value": encode(call(workspace, objects, name, decode(args)))})
        except Exception as error:  # noqa: BLE001 - its kind is the result
            results.append({"error": sorted(kind.__name__ for kind in STANDARD if isinstance(error, kind))})
    return results


STANDARD = (RuntimeError, TypeError, ValueError, AssertionError)


def minidb_records(data: bytes) -> bytes:
    """Return the records of a minidb, chunks of each blob by their number: Caffe2's threads write them in any order."""
    records, start = [], 0
    while start < len(data):
        key, value = struct.unpack_from("<ii", data, start)
        end = start + 8 + key + value
        records.append((data[start + 8 : start + 8 + key], data[start:end]))
        start = end
    blobs = [key.partition(b"#%")[0] for key, _ in records]
    return b"".join(
        record for _, record in sorted(records, key=lambda each: (blobs.index(each[0].partition(b"#%")[0]), each[0]))
    )


def call(  # noqa: PLR0911 - one for each kind of call
    workspace: Any, objects: SimpleNamespace, name: str, args: List[Any]
) -> Any:
    """Make one call; those of a predictor are made of the one in ``objects``."""
    if name == "read_minidb":
        with open(args[0], "rb") as file:
            return minidb_records(file.read())
    if name == "Predictor":
        objects.predictor = workspace.Predictor(*args)
        return None
    if name == "Predictor.run":
        return objects.predictor.run(*args)
    if name == "blobs[]":
        return workspace.blobs[args[0]]
    if name == "blobs[]=":
        workspace.blobs[args[0]] = args[1]
        return None
    if name == "blobs":
        return [sorted(workspace.blobs), len(workspace.blobs), args[0] in workspace.blobs]
    value = getattr(workspace, name)(*args)
    return sorted(value) if name.endswith("Blobs") else value  # Caffe2 lists them by hash


if __name__ == "__main__":
    from caffe2.python import workspace as caffe2_workspace  # type: ignore[import-not-found]  # Caffe2's own

    with open(sys.argv[1]) as source:
        transcripts = json.load(source)
    replies = [replay(caffe2_workspace, calls) for calls in transcripts]
    with open(sys.argv[2], "w") as target:
        json.dump(replies, target)
