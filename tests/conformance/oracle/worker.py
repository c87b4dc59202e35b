"""Runs nets in real Caffe2: worker.py SECONDS. See conformance.oracle.server.

It answers requests on standard input until that ends, each in a process forked from one that has loaded
Caffe2 and run nothing, so that no request meets what an earlier one left, and a crash costs little. Requests and
responses are eight bytes with the length (little-endian) and the arrays as :func:`unpacked` reads them. Each run of a
request has a response of its own; a last one has ``end`` in its ``meta``: how the process died, or an empty string.
``SECONDS`` of CPU time limit each run.

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
import signal
import struct
import sys
import time
from typing import Any, Dict, List, Tuple

import numpy as np
from caffe2.proto import caffe2_pb2  # type: ignore[import-not-found]  # oracle's own
from caffe2.python import core, workspace  # type: ignore[import-not-found]  # oracle's own

# How many times the CPU time that a run may take it may wait.
WAITS = 6
# Some operators ask for whatever memory their arguments say.
MEMORY_LIMIT = 4 << 30


def serve(seconds: int) -> None:
    """Answer requests in forked processes until standard input ends; what operators print goes nowhere."""
    responses = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    while True:
        head = read(8)
        if len(head) < 8:
            return
        data = read(struct.unpack("<Q", head)[0])
        process = os.fork()
        if not process:
            answer_each(data, responses, seconds)
            os._exit(0)  # not a return: nothing of the process that this one was forked from may run at its end
        _, status = os.waitpid(process, 0)
        respond(responses, {"meta": json_array([{"end": how_it_ended(status)}])})


def answer_each(data: bytes, responses: int, seconds: int) -> None:
    """Answer the runs of a request one by one."""
    request = unpacked(data)
    for index, run in enumerate(json.loads(request["meta"].tobytes().decode())):
        # The default action of both signals ends the process, also within native code.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.alarm(WAITS * seconds)
        arrays = answer(run, request, index)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        respond(responses, arrays)


def read(size: int) -> bytes:
    """Return bytes of standard input, fewer at its end."""
    data = bytearray()
    while len(data) < size:
        piece = os.read(0, size - len(data))
        if not piece:
            break
        data += piece
    return bytes(data)


def respond(responses: int, arrays: Dict[str, Any]) -> None:
    """Write one response."""
    body = packed(arrays)
    rest = memoryview(struct.pack("<Q", len(body)) + body)
    while rest:
        rest = rest[os.write(responses, rest) :]


def packed(arrays: Dict[str, Any]) -> bytes:
    """Return arrays as a line of JSON with their names, and each in NumPy's format: much faster than an archive."""
    stream = io.BytesIO()
    stream.write(json.dumps(list(arrays)).encode() + b"\n")
    for array in arrays.values():
        np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def unpacked(data: bytes) -> Dict[str, Any]:
    """Return the arrays that :func:`packed` wrote."""
    stream = io.BytesIO(data)
    return {name: np.load(stream, allow_pickle=False) for name in json.loads(stream.readline().decode())}


def how_it_ended(status: int) -> str:
    """Return what the status of a process says of its death; an empty string if it ended as it should."""
    if not status:
        return ""
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGALRM, signal.SIGPROF):
        return "no result in time"
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return "the process died of {} {}".format("signal" if os.WIFSIGNALED(status) else "status", number)


def json_array(value: Any) -> Any:
    """Return a value as JSON, in an array of bytes."""
    return np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)


def answer(run: Dict[str, Any], request: Dict[str, Any], index: int) -> Dict[str, Any]:
    """Return the response to one run of a request, in an empty workspace."""
    workspace.ResetWorkspace()
    try:
        result, outputs = run_one(run, request, str(index))
    except Exception as error:  # noqa: BLE001 - whatever Caffe2 throws is its answer
        return {"meta": json_array([{"error": str(error)}])}
    arrays = {"0/out/" + name: array for name, array in outputs.items()}
    arrays["meta"] = json_array([result])
    return arrays


def run_one(run: Dict[str, Any], request: Dict[str, Any], index: str) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Feed, run and fetch; run again as often as it is to be timed."""
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
    """Return the net with every operator on the CPU."""
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
    """Return the outputs: what each is, and the arrays."""
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
    """Return the seconds of each of ``times`` further runs of the net."""
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
    serve(int(sys.argv[1]))
