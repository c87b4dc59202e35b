"""Exported graphs read as if a person had written them: names of nodes and dims, and complete shapes."""

from __future__ import annotations

from typing import Final

import pytest
from conformance.__main__ import GOLDEN, select
from conformance.check import RecurrentForm
from conformance.corpus import CaseRef, find_cases, read_case
from conformance.trips import export

from caffe2_bridge.diagnostics import ConversionError
from caffe2_frontend.interop.bodies import proto_nodes

_REFS: Final = {
    ref.group: ref for ref in reversed(select(find_cases(GOLDEN), [], gradients=False, sample=1)) if ref.kind == "model"
}

# Outputs with dims that have no name, and why.
_BRANCHES = "the branches give different sizes"
_SUM = "all rows of a state are the initial ones and T more: a sum has no name"
_UNROLLED = "sizes are those of broadcast operands"
_OPEN: Final = {
    "control_if_else": _BRANCHES,
    "control_if_no_else": _BRANCHES,
    "control_while_if": _BRANCHES,
    "gru": _SUM,
    "gru_linear_before_reset": _SUM,
    "unrolled_lstm": _UNROLLED,
}


@pytest.mark.parametrize("form", ["auto", "scan", "loop"])
@pytest.mark.parametrize("ref", _REFS.values(), ids=lambda ref: ref.group)
def test_names_and_dims(ref: CaseRef, form: RecurrentForm) -> None:
    try:
        model = export(read_case(ref), form)
    except ConversionError:
        pytest.skip("the model is refused")
    names = [node.name for node in proto_nodes(model.graph)]
    assert all(names)
    assert len(set(names)) == len(names)
    assert not [name for name in names if name.startswith("node_")]
    blobs = {blob for op in read_case(ref).net.op for blob in (*op.input, *op.output)}
    assert {value.name for value in model.graph.input} <= blobs
    dims = [dim for value in model.graph.input for dim in value.type.tensor_type.shape.dim]
    assert all(dim.HasField("dim_value") or dim.dim_param for dim in dims)
    unnamed = [
        value.name
        for value in model.graph.output
        if not all(dim.HasField("dim_value") or dim.dim_param for dim in value.type.tensor_type.shape.dim)
    ]
    assert not unnamed or ref.group.rpartition("/")[2] in _OPEN, unnamed


def test_the_exceptions_are_models() -> None:
    assert {name.rpartition("/")[2] for name in _REFS} >= _OPEN.keys()
