"""Between a net and an ONNX model lock step names the one operator, or those that are equally right and no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from support.paths import MODELS
from support.share import share
from support.validation.export_faults import GROUPS, ExportFault, edited, export, node_of, renamed, without_cells
from support.validation.faults import case_of, with_weight

from caffe2_bridge import load
from caffe2_validation.diagnose.divergences import lock_step
from caffe2_validation.report import Divergence
from caffe2_validation.runtimes import Value, find_runtime
from caffe2_validation.runtimes.base import AnyModel, Loaded
from caffe2_validation.runtimes.onnx_reference import OnnxReference
from caffe2_validation.sides import Side

# Of large groups the quick tests take every n-th, and the slow ones the others.
EVERY = {"nets": 8, "fused weights": 9}
SLOW = "further nodes of each"
QUICK = [group for group in GROUPS if group != SLOW]
PARTS = 4
STRIDE = 16


@cache
def faults_of(group: str) -> Sequence[ExportFault]:
    return list(GROUPS[group]())


def look(fault: ExportFault, model: onnx.ModelProto | None = None) -> Divergence | None:
    net = Side("net", find_runtime("workspace"), fault.net)
    runtime = find_runtime("onnxruntime-cpu")
    return lock_step(net, Side("export", runtime, fault.export if model is None else model), fault.case)


def miss(fault: ExportFault, found: Divergence | None) -> str:
    """Return what is wrong with what was found; empty for nothing. Of equally right operators one may be in no loop."""
    if found is None:
        return f"{fault.name}: nothing found"
    if {found.operator, *found.equally} != fault.places:
        return f"{fault.name}: {found.operator}, {found.equally}, not {sorted(fault.places)}"
    if fault.step not in (-1, found.timestep) and len(fault.places) == 1:
        return f"{fault.name}: step {found.timestep}, not {fault.step}"
    return "" if found.cause else f"{fault.name}: no cause"


def kind_of(fault: ExportFault) -> tuple[str, str]:
    """Return the model of a fault and the form of its export."""
    return fault.net.predict_net.name, fault.name.rpartition(", ")[2].partition(":")[0]


@pytest.mark.parametrize("group", QUICK)
def test_the_operator_and_the_step_are_named(group: str) -> None:
    faults = faults_of(group)[:: EVERY.get(group, 1)]
    assert len(faults) >= 7
    faults = share(faults, 3, name=lambda fault: fault.name, group=lambda fault: fault.places)
    assert [text for fault in faults if (text := miss(fault, look(fault)))] == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("group", EVERY)
def test_the_others(group: str, part: int) -> None:
    faults = [fault for index, fault in enumerate(faults_of(group)) if index % EVERY[group]]
    assert len(faults) >= 40
    chosen = share(faults, STRIDE, name=lambda fault: fault.name, group=kind_of)[part::PARTS]
    assert chosen
    assert [text for fault in chosen if (text := miss(fault, look(fault)))] == []


@pytest.mark.slow
def test_further_nodes() -> None:
    faults = faults_of(SLOW)
    assert len(faults) >= 40
    faults = share(faults, STRIDE, name=lambda fault: fault.name, group=kind_of)
    assert [text for fault in faults if (text := miss(fault, look(fault)))] == []


@pytest.mark.parametrize(("group", "every"), [("a node of each", 4), ("fused attributes", 3), ("cell arguments", 4)])
def test_the_model_may_come_from_another_tool(group: str, every: int) -> None:
    faults = share(faults_of(group)[::every], 2, name=lambda fault: fault.name, group=lambda fault: fault.places)
    assert [text for fault in faults if (text := miss(fault, look(fault, renamed(fault.export))))] == []


def test_the_cause_names_the_element() -> None:
    model = load(MODELS / "gru")
    case = case_of(model)

    def bump(array: Any) -> Any:
        array[2, 3] = 7
        return array

    made = export(with_weight(model, "rnn/update_gate_t_w", bump), case, "fused")
    found = look(ExportFault("", model, lambda: made, case, frozenset()))
    assert found is not None
    assert found.cause.startswith("parameter 'rnn/update_gate_t_w': 1 of 36 elements differ; [2, 3] is 7, not ")


class Rounded(OnnxReference):
    """A runtime whose GRU is not exact enough."""

    def load(self, model: AnyModel) -> Any:
        loaded = super().load(model)
        assert isinstance(model, onnx.ModelProto)
        return _Rounded(loaded) if any(node.op_type == "GRU" for node in model.graph.node) else loaded


class _Rounded:
    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded

    def run(self, inputs: Mapping[str, Value], outputs: Sequence[str] | None = None) -> dict[str, Value]:
        found = {name: np.asarray(value) for name, value in self.loaded.run(inputs, outputs).items()}
        return {name: value.round(1) if value.dtype.kind == "f" else value for name, value in found.items()}


def test_a_wrong_operator_of_the_runtime_is_told_from_a_wrong_model() -> None:
    model = load(MODELS / "gru")
    case = case_of(model)
    net = Side("net", find_runtime("workspace"), model)
    found = lock_step(net, Side("export", Rounded(), export(model, case, "fused")), case)
    assert found is not None
    assert found.operator == "gru[1] RecurrentNetwork"
    assert "runtime" in found.cause


def test_a_model_that_computes_something_else_is_left_to_the_first_stage() -> None:
    """Check that what the first stage says stands: nothing of the model can be laid beside the net's export."""
    model = without_cells(load(MODELS / "lstm"))
    case = case_of(load(MODELS / "lstm"))
    made = export(model, case, "scan")

    def other(proto: onnx.ModelProto) -> None:
        del proto.graph.node[:]
        for value in proto.graph.output:
            proto.graph.node.add(op_type="Expand", input=["zero", "shape"], output=[value.name])
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((), np.float32), "zero"))
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 3, 6]), "shape"))

    found = look(ExportFault("", model, lambda: edited(made, other), case, frozenset()))
    assert found is not None
    assert found.operator == "lstm[1] RecurrentNetwork"


def test_the_candidate_is_not_changed() -> None:
    model = load(MODELS / "lstm")
    case = case_of(model)
    made = export(model, case, "scan")
    node_of(made, "Tanh").op_type = "Sigmoid"
    before = made.SerializeToString(deterministic=True)
    assert look(ExportFault("", model, lambda: made, case, frozenset())) is not None
    assert made.SerializeToString(deterministic=True) == before
