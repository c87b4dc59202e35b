"""What real Caffe2 says of devices; run by its own python, see test_devices_oracle.py.

usage: <Caffe2's python> caffe2_devices.py REQUEST.json    (the answer is JSON on the last line of stdout)
"""
# ruff: noqa: PTH118, PTH120, PTH123, UP006, UP035, T201 - as plain as the oldest Python of Caffe2 needs it

import base64
import ctypes
import json
import os
import sys
from typing import Any, Dict, List

import torch
from caffe2.proto import caffe2_pb2  # type: ignore[import-not-found]  # Caffe2's own
from caffe2.python import core  # type: ignore[import-not-found]  # Caffe2's own


def plain(option: Any) -> List[int]:
    return [option.device_type, option.device_id if option.device_type else 0]


def operand_devices() -> Dict[str, Any]:
    """Return the devices of operands of operators on GPU 1, for each number of operands that the schema allows."""
    found = {}
    for kind in sorted(map(str, core._REGISTERED_OPERATORS)):
        schema = core.C.OpSchema.get(kind)
        if schema is None:
            continue
        cases = []
        for count in range(schema.min_input, min(schema.max_input, 8) + 1):
            outs = min(max(schema.min_output, 1), 8), min(schema.max_output, 8)
            op = core.CreateOperator(kind, [f"i{i}" for i in range(count)], [f"o{i}" for i in range(max(outs))])
            op.device_option.CopyFrom(core.DeviceOption(caffe2_pb2.CUDA, 1))
            try:
                devices = core.InferOpBlobDevices(op)
            except Exception:  # noqa: BLE001, S112 - its schema asks for arguments: it says nothing then
                continue
            cases.append([list(op.input), list(op.output)] + [[plain(option) for option in side] for side in devices])
        found[kind] = cases
    return found


def with_copies(serialized: str, devices: Dict[str, int]) -> Any:
    """Return what InjectCrossDeviceCopies makes of a net, or its error; ``devices``: inputs' GPUs, -1 is the host."""
    proto = caffe2_pb2.NetDef()
    proto.ParseFromString(base64.b64decode(serialized))
    try:
        known = {
            name: core.DeviceOption(caffe2_pb2.CUDA, index) if index >= 0 else core.DeviceOption(caffe2_pb2.CPU)
            for name, index in devices.items()
        }
        net, _ = core.InjectCrossDeviceCopies(core.Net(proto), known)
    except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
        return {"error": str(error)}
    return {"ops": [[op.type, list(op.input), list(op.output), plain(op.device_option)] for op in net.Proto().op]}


def cuda_operators() -> Any:
    """Return the register of CUDA operators, or None in a build without it.

    Python has no way to ask for it; the register starts with its map, a hash table of the C++ library whose nodes are
    linked: the next one, then the key, whose first field is where its characters are.
    """
    library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
    register = getattr(library, "_ZN6caffe220CUDAOperatorRegistryEv", None)
    if register is None:
        return None
    register.restype = ctypes.c_void_p
    fields = ctypes.POINTER(ctypes.c_void_p)
    table = ctypes.cast(register(), fields)
    node, count, keys = table[2], table[3] or 0, []
    while node:
        node, text = ctypes.cast(node, fields)[0:2]
        keys.append(ctypes.string_at(text).decode())
    assert len(keys) == count
    return sorted(keys)


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        request = json.load(file)
    answers = {
        "cuda": cuda_operators(),
        "operands": operand_devices(),
        "nets": [with_copies(*net) for net in request["nets"]],
    }
    print(json.dumps(answers))
