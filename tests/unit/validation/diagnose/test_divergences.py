"""Lock step names the operator and the step of every planted fault."""

from __future__ import annotations

import numpy as np
import pytest
from support.paths import MODELS
from support.share import share
from support.validation.faults import Fault, case_of, every_fault, with_weight

from caffe2_bridge import Model, load
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx
from caffe2_validation import Divergence, validate
from caffe2_validation.diagnose.divergences import lock_step
from caffe2_validation.forms import Forms
from caffe2_validation.runtimes import find_runtime
from caffe2_validation.sides import Side

FAULTS = every_fault()
EXPORTED = share(
    [fault for fault in FAULTS if fault.name.startswith(("weight", "gates"))], 3, name=lambda fault: fault.name,
    group=lambda fault: fault.name.split()[0],
)  # fmt: skip


def sides(fault: Fault, net: str = "workspace") -> tuple[Side, Side]:
    runtime = find_runtime(net if isinstance(fault.good, Model) else "onnxruntime-cpu")
    return Side("good", runtime, fault.good), Side("bad", runtime, fault.bad)


def check(fault: Fault, found: Divergence | None) -> None:
    assert found is not None
    if fault.place:
        assert found.operator == fault.place
    if fault.blob:
        assert found.blob == fault.blob
    assert found.timestep == fault.step


def test_there_are_fifty() -> None:
    assert len(FAULTS) >= 50
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_operator_is_named(fault: Fault) -> None:
    check(fault, lock_step(*sides(fault), fault.case))


@pytest.mark.oracle
@pytest.mark.parametrize("fault", [f for f in FAULTS if isinstance(f.good, Model)][::3], ids=lambda fault: fault.name)
def test_real_caffe2_names_it_too(fault: Fault) -> None:
    good, bad = sides(fault)
    check(fault, lock_step(Side("good", find_runtime("caffe2"), good.model), bad, fault.case))


@pytest.mark.parametrize("name", ["lstm", "gru", "attention_regular", "control_while_if", "lstm_two_layers"])
@pytest.mark.parametrize("form", ["auto", "scan", "loop"])
def test_a_right_export_never_diverges(name: str, form: str) -> None:
    forms = Forms(load(MODELS / name), export={"recurrent": form})
    case = case_of(load(MODELS / name))
    reference = Side("net", find_runtime("workspace"), forms.net)
    for runtime in map(find_runtime, ("onnxruntime-cpu", "onnx-reference")):
        assert lock_step(reference, Side("export", runtime, forms.graph), case) is None
        assert lock_step(Side("export", runtime, forms.graph), reference, case) is None


def test_an_export_of_a_bad_net_names_the_place_in_the_good_one() -> None:
    good = load(MODELS / "lstm")
    weight = next(name for name in good.params if name.endswith("i2h_w"))
    bad = with_weight(good, weight, lambda array: array * 1.5)
    report = validate(
        good,
        other=Forms(bad, export={"recurrent": "scan"}).graph,
        runtimes=("workspace", "onnxruntime-cpu"),
        lockstep=True,
    )
    assert report.divergences[0].operator.endswith("[0] FC")
    assert report.divergences[0].blob.endswith("i2h")


@pytest.mark.parametrize("fault", EXPORTED, ids=lambda f: f.name)
def test_between_a_net_and_an_export_the_operator_is_named_too(fault: Fault) -> None:
    runtime, other = find_runtime("workspace"), find_runtime("onnxruntime-cpu")
    export = Forms(fault.bad, export={"recurrent": "scan"}).graph
    found = lock_step(Side("net", runtime, fault.good), Side("export", other, export), fault.case)
    check(fault, found)
    assert found is not None
    assert (found.equally, found.suspects) == ((), (fault.place,))


def test_an_export_that_runs_as_a_net_has_one_write_for_those_in_place() -> None:
    """The FC and the Sum of a step write one blob in turn; the export's import writes it once."""
    good = load(MODELS / "lstm")
    net = NetDef()
    net.CopyFrom(good.predict_net)
    step = next(arg.n for arg in net.op[1].arg if arg.name == "step_net")
    next(arg for arg in step.op[2].arg if arg.name == "forget_bias").f = 1.0
    bad = to_onnx(Model.of(net, good.init_net))
    report = validate(good, None, ["workspace"], other=bad, lockstep=True)
    assert {found.operator for found in report.divergences} == {"lstm[1] RecurrentNetwork > step_net[2] LSTMUnit"}


def test_a_fused_operator_tells_its_step() -> None:
    good = load(MODELS / "lstm")
    weight = next(name for name in good.params if name.endswith("gates_t_w"))
    bad = with_weight(good, weight, lambda array: array * 1.5)
    inputs = dict(case_of(good).inputs)
    inputs |= {name: np.zeros_like(value) for name, value in inputs.items() if name.startswith("init")}
    report = validate(good, inputs, other=Forms(bad).graph, runtimes=("workspace", "onnxruntime-cpu"), lockstep=True)
    found = report.divergences[0]
    assert "RecurrentNetwork" in found.operator
    assert found.timestep == 1  # the hidden state is zero before the first step: its weights do not count


def test_the_growth_starts_at_the_operator_and_goes_on() -> None:
    fault = next(f for f in FAULTS if f.name == "step 3")
    found = lock_step(*sides(fault), fault.case)
    assert found is not None
    assert found.growth[0][0] == found.operator
    errors = [error for place, error in found.growth if place == found.operator]
    assert max(errors) >= 1
    assert len(found.growth) > 10


def test_an_operator_that_cannot_run_is_told() -> None:
    fault = next(f for f in FAULTS if f.name.startswith("argument 0"))
    broken = type(fault.bad.predict_net)()
    broken.CopyFrom(fault.bad.predict_net)
    broken.op[1].type = "NoSuchOperator"
    good, bad = sides(fault)
    found = lock_step(good, Side("bad", bad.runtime, Model(broken, fault.bad.init)), fault.case)
    assert found is not None
    assert found.op_type == "NoSuchOperator"
