"""Runs nets in real Caffe2: oracle_worker.py REQUEST.npz RESPONSE.npz, or --serve. Started by conformance.oracle.

With --serve it answers requests on standard input until that ends, each and each response as eight bytes with the
length (little-endian) and the archive.

This file runs under the oldest Python that Caffe2 was built for (3.6) and imports nothing of this project.

Request: ``meta``, a JSON list of runs ``{inputs, outputs, int8, strings, init, times}``; ``i/net`` and ``i/init``,
serialized NetDefs; ``i/in/NAME``, arrays. ``outputs`` null asks for every blob that the net writes. Response: ``meta``,
a JSON list of ``{outputs, opaque, int8, strings, seconds}`` or ``{error}``; ``i/out/NAME``. Strings and Int8 as in a
corpus's case files.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 knows Dict and List alone, and no postponed annotations

import io
import json
import os
import resource
import struct
import sys
import time
from typing import Any, Dict, List, Tuple

import numpy as np
from caffe2.proto import caffe2_pb2  # type: ignore[import-not-found]  # oracle's own
from caffe2.python import core, workspace  # type: ignore[import-not-found]  # oracle's own

# Some operators ask for whatever memory their arguments say.
MEMORY_LIMIT = 8 << 30


def main(request_path: str, response_path: str) -> None:
    """Answer one request."""
    with np.load(request_path, allow_pickle=False) as archive:
        arrays = answer(dict(archive))
    np.savez_compressed(response_path, **arrays)


def serve() -> None:
    """Answer requests until standard input ends; what operators print goes nowhere."""
    requests, responses = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    while True:
        head = requests.read(8)
        if len(head) < 8:
            return
        with np.load(io.BytesIO(requests.read(struct.unpack("<Q", head)[0])), allow_pickle=False) as archive:
            arrays = answer(dict(archive))
        body = io.BytesIO()
        np.savez(body, **arrays)
        responses.write(struct.pack("<Q", body.tell()) + body.getvalue())
        responses.flush()


def answer(request: Dict[str, Any]) -> Dict[str, Any]:
    """The response to a request: every run of it, each in an empty workspace."""
    meta = []
    arrays: Dict[str, Any] = {}
    for index, run in enumerate(json.loads(request["meta"].tobytes().decode())):
        workspace.ResetWorkspace()
        try:
            result, outputs = run_one(run, request, str(index))
        except Exception as error:  # noqa: BLE001 - whatever Caffe2 throws is its answer
            meta.append({"error": str(error)})
            continue
        meta.append(result)
        arrays.update({f"{index}/out/{name}": array for name, array in outputs.items()})
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    return arrays


def run_one(run: Dict[str, Any], request: Dict[str, Any], index: str) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Feed, run, fetch; the run again as often as it is to be timed."""
    if run["init"]:
        workspace.C.run_net_once(on_cpu(request[index + "/init"].tobytes()).SerializeToString())
    for name in run["inputs"]:
        feed(name, run, request.get(index + "/in/" + name))
    net = on_cpu(request[index + "/net"].tobytes())
    workspace.C.run_net_once(net.SerializeToString())
    names = run["outputs"]
    if names is None:
        names = list(dict.fromkeys(name for op in net.op for name in op.output if name))
    result, outputs = fetch(names)
    result["seconds"] = measure(net, run["times"])
    return result, outputs


def on_cpu(data: bytes) -> Any:
    """The net with every operator on the CPU."""
    net = caffe2_pb2.NetDef()
    net.ParseFromString(data)
    net.ClearField("device_option")
    for op in net.op:
        op.ClearField("device_option")
        if op.engine == "CUDNN":
            op.ClearField("engine")
    return net


def feed(name: str, run: Dict[str, Any], array: Any) -> None:
    """Put one input into the workspace: an array, a string tensor, or an Int8 tensor."""
    if "in/" + name in run["strings"]:
        shape, values = run["strings"]["in/" + name]
        workspace.FeedBlob(name, np.array([value.encode("latin-1") for value in values], dtype=object).reshape(shape))
    elif name in run["int8"]:
        scale, zero_point = run["int8"][name]
        whole = array.dtype == np.int32
        workspace.RunOperatorOnce(
            core.CreateOperator(
                "Int8GivenIntTensorFill" if whole else "Int8GivenTensorFill",
                [],
                [name],
                shape=array.shape,
                values=array.ravel().tolist() if whole else array.tobytes(),
                Y_scale=scale,
                Y_zero_point=zero_point,
            )
        )
    else:
        workspace.FeedBlob(name, array)


def fetch(names: List[str]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """The outputs: what each is, and the arrays."""
    result: Dict[str, Any] = {"outputs": [], "opaque": [], "int8": {}, "strings": {}}
    arrays = {}
    for name in names:
        try:
            value = workspace.FetchBlob(name)
        except Exception:  # noqa: BLE001 - Caffe2 says in no other way that a blob is no tensor
            value = None
        if isinstance(value, np.ndarray) and value.dtype == object:
            texts = [item.decode("latin-1") if isinstance(item, bytes) else item for item in value.ravel()]
            result["strings"]["out/" + name] = [list(value.shape), texts]
        elif isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            try:
                quantized = workspace.FetchInt8Blob(name)
            except Exception:  # noqa: BLE001 - nor that it is no Int8 tensor
                result["opaque"].append(name)
                continue
            arrays[name] = quantized.data
            result["int8"][name] = [float(quantized.scale), int(quantized.zero_point)]
        result["outputs"].append(name)
    return result, arrays


def measure(net: Any, times: int) -> List[float]:
    """Seconds of each of ``times`` further runs of the net."""
    seconds = []
    if times:
        net.name = "measured"
        workspace.C.create_net(net.SerializeToString(), True)  # noqa: FBT003 - a native function, positional only
    for _ in range(times):
        start = time.perf_counter()
        workspace.C.run_net(b"measured", 1, False)  # noqa: FBT003 - a native function, positional only
        seconds.append(time.perf_counter() - start)
    return seconds


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve()
    else:
        main(sys.argv[1], sys.argv[2])
