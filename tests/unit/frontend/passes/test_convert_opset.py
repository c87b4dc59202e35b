"""Other opsets: converted and run, or refused with the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from support import cells
from support.netdef_interpreter import run_net

from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.diagnostics import ConversionError, OptionError
from caffe2_frontend import to_onnx

CELL = cells.lstm(projection="inside", forget="argument")
INPUTS: dict[str, Any] = {"x": ("float32", ["T", "N", cells.FEATURES]), "lengths": ("int32", ["N"])}
MIN_IR = {
    9: 4,
    10: 5,
    11: 6,
    12: 7,
    13: 7,
    14: 7,
    15: 8,
    16: 8,
    17: 8,
    18: 8,
    19: 9,
    20: 9,
    21: 10,
    22: 10,
    23: 11,
    24: 12,
    25: 13,
}


def export(opset: int, form: str) -> onnx.ModelProto:
    return to_onnx(CELL.net(), CELL.init(), inputs=INPUTS, opset=opset, recurrent=form)  # type: ignore[arg-type]


def bodies(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return inner + [deeper for body in inner for deeper in bodies(body)]


@pytest.mark.parametrize("form", ["fused", "scan"])
@pytest.mark.parametrize("opset", MIN_IR)
def test_each_opset_runs_and_is_right(opset: int, form: str) -> None:
    model = export(opset, form)
    assert [(o.domain, o.version) for o in model.opset_import] == [("", opset)]
    assert model.ir_version == MIN_IR[opset]
    onnx.checker.check_model(model, full_check=True)
    assert ("Scan" in {n.op_type for g in [model.graph, *bodies(model.graph)] for n in g.node}) == (form == "scan")
    inputs = cells.feed(CELL, 4, 3)
    blobs = run_net(CELL.net(), {**CELL.weights, **inputs})
    for name, value in Session(model.SerializeToString(), threads=1).run(inputs).items():
        np.testing.assert_allclose(value, blobs[name], rtol=1e-4, atol=2e-6, err_msg=name)


def test_the_names_and_dims_of_inputs_and_outputs_stay() -> None:
    def interface(model: onnx.ModelProto) -> list[Any]:
        values = [*model.graph.input, *model.graph.output]
        return [(v.name, [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]) for v in values]

    default = interface(export(20, "fused"))
    assert interface(export(18, "fused")) == interface(export(23, "fused")) == default


@pytest.mark.parametrize(("opset", "form", "hint"), [(8, "scan", "a later"), (7, "fused", "a later")])
def test_what_an_opset_cannot_express_is_refused_with_the_reason(opset: int, form: str, hint: str) -> None:
    with pytest.raises(ConversionError) as raised:
        export(opset, form)
    (finding,) = raised.value.findings
    assert finding.code == "opset"
    assert finding.reason.startswith(f"the model cannot be converted from opset 20 to {opset}: ")
    assert len(finding.reason.partition("to ")[2]) > 12
    assert "\n" not in finding.reason
    assert hint in finding.hint


def test_an_opset_beyond_the_converter_is_refused() -> None:
    newest = onnx.defs.onnx_opset_version()
    try:
        model = export(newest, "fused")
    except ConversionError as error:
        assert "an earlier" in error.errors[0].hint  # noqa: PT017 - either is right, by the versions installed
    else:
        assert model.opset_import[0].version == newest


@pytest.mark.parametrize("opset", [0, -1, 999])
def test_an_opset_that_does_not_exist(opset: int) -> None:
    with pytest.raises(OptionError, match=f"opset must be from 1 to .*, not {opset}"):
        export(opset, "fused")
