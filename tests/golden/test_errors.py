"""What real Caffe2 refused, we refuse too, with a finding: whatever of it is known before the model runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest
from support.paths import GOLDEN

from caffe2_bridge import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

# Refusals that depend on the contents of an operand: an exported model cannot look before it runs.
DEPENDS_ON_CONTENTS: Final = {
    "DepthSplit": "the sizes are an operand",
    "EnforceFinite": "whether all elements are finite",
    "GatherRangesToDense": "how many ranges are empty or of another length than expected",
    "LengthsToShape": "whether the lengths are equal",
    "PackSegments": "whether the lengths add up to the rows",
    "SparseLengthsSum": "whether the indices are rows of the table",
    "Quantile": "whether the bisection goes beyond float precision",
}


def refusals() -> Iterator[Any]:
    for path in (GOLDEN / "errors.npz", GOLDEN / "recorded" / "errors.npz"):
        with np.load(path) as file:
            meta = json.loads(bytes(file["meta"]).decode())
            for i, case in enumerate(meta):
                inputs = {
                    name: (file[key].dtype, list(file[key].shape))
                    for name in case["inputs"]
                    if (key := f"{i:03}/in/{name}") in file.files
                }
                inputs |= {
                    name.removeprefix("in/"): ("string", shape)
                    for name, (shape, _) in case.get("strings", {}).items()
                    if name.startswith("in/")
                }
                label = f"{path.parent.name}-{i:03}-{'+'.join(case['types'])}"
                yield pytest.param(case, bytes(file[f"{i:03}/proto"]), inputs, id=label)


def refused_net(case: dict[str, Any], proto: bytes) -> NetDef:
    if case["kind"] == "net":
        return NetDef.FromString(proto)
    op = OperatorDef.FromString(proto)
    return NetDef(op=[op], external_input=case["inputs"], external_output=op.output)


@pytest.mark.parametrize(("case", "proto", "inputs"), [*refusals()])
def test_what_caffe2_refuses_is_refused(case: dict[str, Any], proto: bytes, inputs: dict[str, Any]) -> None:
    net = refused_net(case, proto)
    if set(case["types"]) & set(DEPENDS_ON_CONTENTS):
        try:
            to_onnx(net, inputs=inputs)
        except ConversionError as error:
            assert error.findings  # noqa: PT017 - refused earlier than need be: as good
        return
    with pytest.raises(ConversionError) as caught:
        to_onnx(net, inputs=inputs)
    assert caught.value.findings
