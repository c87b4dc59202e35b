"""What real Caffe2 says of devices; run by its own python, see test_oracle.py.

usage: <Caffe2's python> caffe2_devices.py REQUEST.json    (the answer is JSON on the last line of stdout)
"""
# ruff: noqa: PTH123, UP006, UP035, T201 - as plain as the oldest Python of Caffe2 needs it

import base64
import json
import sys
from typing import Any, Dict, List

from caffe2.proto import caffe2_pb2  # type: ignore[import-not-found]  # Caffe2's own
from caffe2.python import core  # type: ignore[import-not-found]  # Caffe2's own


def plain(option: Any) -> List[int]:
    return [option.device_type, option.device_id if option.device_type else 0]


def operand_devices() -> Dict[str, Any]:
    """The devices of operands of operators on GPU 1, for each number of operands that the schema allows."""
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


def with_copies(serialized: str) -> Any:
    """What InjectCrossDeviceCopies makes of a net, or its error."""
    proto = caffe2_pb2.NetDef()
    proto.ParseFromString(base64.b64decode(serialized))
    try:
        net, _ = core.InjectCrossDeviceCopies(core.Net(proto))
    except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
        return {"error": str(error)}
    return {"ops": [[op.type, list(op.input), list(op.output), plain(op.device_option)] for op in net.Proto().op]}


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        request = json.load(file)
    answers = {"operands": operand_devices(), "nets": [with_copies(net) for net in request["nets"]]}
    print(json.dumps(answers))
