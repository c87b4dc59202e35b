"""What real Caffe2 refused, we refuse too, with a diagnostic: whatever is known before the model runs."""

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

# What real Caffe2 says where it refuses the contents of an operand: an exported model cannot look before it runs.
DEPENDS_ON_CONTENTS: Final = {
    ("EnforceFinite", "isfinite. Index"): "whether all elements are finite",
    ("GatherRangesToDense", "maxMismatchedRatio_"): "how many ranges have another length than expected",
    ("GatherRangesToDense", "maxEmptyRatio_"): "how many ranges are empty",
    ("PackSegments", "requires that the sum of the lengths"): "whether the lengths add up to the rows",
    ("SparseLengthsSum", "0 <= idx && idx < N"): "whether the indices are rows of the table",
    ("DepthSplit", "Sum of split dimensions do not match"): "the sizes are an operand",
    ("LengthsToShape", "All elements of input must be same"): "whether the lengths are equal",
    ("Quantile", "numeric precision at limit"): "whether the bisection goes beyond float precision",
}


def depends_on(case: dict[str, Any]) -> set[tuple[str, str]]:
    return {key for key in DEPENDS_ON_CONTENTS if key[0] in case["types"] and key[1] in case["error"]}


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


REFUSALS: Final = [*refusals()]


@pytest.mark.parametrize(("case", "proto", "inputs"), [param for param in REFUSALS if not depends_on(param.values[0])])
def test_what_caffe2_refuses_is_refused(case: dict[str, Any], proto: bytes, inputs: dict[str, Any]) -> None:
    with pytest.raises(ConversionError) as caught:
        to_onnx(refused_net(case, proto), inputs=inputs)
    assert caught.value.errors


@pytest.mark.parametrize(("case", "proto", "inputs"), [param for param in REFUSALS if depends_on(param.values[0])])
def test_what_depends_on_contents_is_converted(case: dict[str, Any], proto: bytes, inputs: dict[str, Any]) -> None:
    to_onnx(refused_net(case, proto), inputs=inputs)


def test_the_table_lists_recorded_refusals() -> None:
    assert set(DEPENDS_ON_CONTENTS) == set().union(*(depends_on(param.values[0]) for param in REFUSALS))
