"""Real Caffe2's own gradients, in its own python: caffe2_worker.py (operators|nets) REQUEST.json RESPONSE.json.

Runs under the oldest Python that Caffe2 was built for, and imports nothing of this project's packages.
"""
# ruff: noqa: PTH123, UP006, UP035 - as plain as Python 3.6 needs it

import json
import os
import sys
import time
from typing import Any, Callable, Dict, List

from caffe2.proto import caffe2_pb2  # type: ignore[import-not-found]  # Caffe2's own
from caffe2.python import core  # type: ignore[import-not-found]  # Caffe2's own
from google.protobuf import text_format

CHUNK = 50


def wrapped(gradient: Any) -> Any:
    """Return a gradient of an output as the native registry takes it."""
    wrapper = core.C.GradientWrapper()
    if isinstance(gradient, dict):
        wrapper.indices, wrapper.values = gradient["indices"], gradient["values"]
    elif gradient is not None:
        wrapper.dense = gradient
    return wrapper


def operator(case: Dict[str, Any]) -> Dict[str, Any]:
    """Return what the native registry gives for one operator."""
    op = text_format.Parse(case["op"], caffe2_pb2.OperatorDef())
    try:
        found, g_input = core.C.get_gradient_defs(op.SerializeToString(), [wrapped(g) for g in case["g_output"]])
    except Exception as error:  # noqa: BLE001 - whatever Caffe2 refuses with is recorded
        return {"error": str(error)}
    gradients = [
        {"indices": g.indices, "values": g.values} if g.is_sparse() else g.dense if g.is_dense() else None
        for g in g_input
    ]
    return {"grad_ops": [text(caffe2_pb2.OperatorDef.FromString(op)) for op in found], "g_input": gradients}


def net(case: Dict[str, Any]) -> Dict[str, Any]:
    """Return what Caffe2's Python makes of a whole net."""
    proto = text_format.Parse(case["net"], caffe2_pb2.NetDef())
    start = time.perf_counter()
    try:
        operators, gradients = core.GradientRegistry.GetBackwardPass(proto.op, dict(case["ys"]))
    except Exception as error:  # noqa: BLE001 - whatever Caffe2 refuses with is recorded
        return {"error": str(error)}
    seconds = time.perf_counter() - start
    names = {
        str(blob): {"indices": str(g.indices), "values": str(g.values)} if isinstance(g, core.GradientSlice) else str(g)
        for blob, g in gradients.items()
    }
    return {"operators": [text(op) for op in operators], "gradients": names, "seconds": seconds}


def text(message: Any) -> str:
    """Return protobuf text."""
    return str(text_format.MessageToString(message))


def main(kind: str, request: str, response: str) -> None:
    """Answer every case."""
    with open(request) as file:
        cases = json.load(file)  # type: List[Dict[str, Any]]
    answer = {"operators": operator, "nets": net}[kind]
    answers = [done for start in range(0, len(cases), CHUNK) for done in in_child(answer, cases[start : start + CHUNK])]
    with open(response, "w") as file:
        json.dump(answers, file)


def in_child(answer: Callable[[Dict[str, Any]], Dict[str, Any]], cases: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Answer cases in a process of their own: some gradient makers read beyond the operands, and die."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with os.fdopen(writing, "w") as file:
            json.dump([dict(case, **answer(case)) for case in cases], file)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    if os.waitpid(child, 0)[1] == 0:
        return list(json.loads(text))
    if len(cases) == 1:
        return [dict(cases[0], error="died")]
    return [done for case in cases for done in in_child(answer, [case])]


if __name__ == "__main__":
    main(*sys.argv[1:])
