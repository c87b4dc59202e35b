"""Recurrent nets as PyTorch's LSTM, GRU and RNN: where they are, and that they compute what the step net computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pytest
from conformance.__main__ import GOLDEN, select
from conformance.corpus import CaseRef, find_cases, read_case
from conformance.recording import operator
from support import cells
from support.cells import Recurrent

from caffe2_bridge import RunError
from caffe2_bridge.cells.match import NoMatchError
from caffe2_bridge.control import RecurrentNetwork
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef

pytestmark = pytest.mark.torch

torch: Any = pytest.importorskip("torch")

SPELLINGS: Final[Mapping[str, Recurrent]] = {
    "lstm": cells.lstm(),
    "lstm, states dropped": cells.lstm(drop=True),
    "lstm without lengths": cells.lstm(mask="none"),
    "lstm, forget bias as argument": cells.lstm(forget="argument"),
    "lstm, four dense layers, swapped": cells.lstm(gates="four", add="Add", swapped=True),
    "lstm, projection in the step": cells.lstm(projection="inside"),
    "lstm, spelled out": cells.lstm(unit=False, mask="none", forget="vector"),
    "lstm, scalar forget bias": cells.lstm(unit=False, mask="none", forget="scalar"),
    "lstm, spelled out with masks": cells.lstm(unit=False, mask="product"),
    "lstm, spelled out, dropped": cells.lstm(unit=False, mask="product", drop=True),
    "lstm, masks around the unit": cells.lstm(mask="product", forget="argument"),
    "gru": cells.gru(),
    "gru, states dropped": cells.gru(drop=True),
    "gru without lengths": cells.gru(mask="none"),
    "gru, spelled out": cells.gru(unit=False, mask="product", swapped=True),
    "rnn": cells.rnn(),
    "rnn of relu, dropped": cells.rnn("Relu", drop=True),
    "rnn, projection in the step": cells.rnn(projection="inside", mask="none"),
}


def module(cell: Recurrent, outputs: tuple[str, ...] | None = None) -> Any:
    from caffe2_torch import to_torch

    return to_torch(cell.net(), cell.init(), outputs=outputs)


def layers(made: Any) -> list[Any]:
    """Return the layers that a module runs."""
    from caffe2_torch.recurrent.fuse import LayersStep

    return [layer for step in made._fused_program().steps if isinstance(step, LayersStep) for layer in step.layers]


def assert_same(actual: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, rtol=1e-4, atol=3e-6)


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_is_a_layer_and_right(name: str) -> None:
    cell = SPELLINGS[name]
    made = module(cell)
    assert [layer.cell.kind for layer in layers(made)] == [name.partition(" ")[0].strip(",").upper()]
    assert len(made._fused_program().steps) == 1
    for steps, batch in ((1, 1), (2, 3), (7, 4)):
        for scale in (1.0, 60.0):
            fed = cells.feed(cell, steps, batch, scale=scale)
            assert_same(made(fed), made.run(fed, made.outputs))
            if cell.lengths:
                fed["lengths"][:] = steps
                assert_same(made(fed), made.run(fed, made.outputs))


@pytest.mark.parametrize("name", SPELLINGS)
def test_gradients_reach_the_parameters_of_the_net(name: str) -> None:
    cell = SPELLINGS[name]
    gradients = []
    for fused in (True, False):
        made = module(cell)
        assert set(made.state_dict()) == set(cell.weights)
        fed = {n: torch.from_numpy(v) for n, v in cells.feed(cell, 5, 4).items()}
        for value in fed.values():
            value.requires_grad_(value.is_floating_point())
        results = made(fed) if fused else made.run(fed, made.outputs)
        uneven = (value * torch.linspace(-1, 1, value.numel()).view(value.shape) for value in results.values())
        sum(value.sum() for value in uneven).backward()
        held = {**dict(made.named_parameters()), **{n: v for n, v in fed.items() if v.requires_grad}}
        gradients.append({n: v.grad for n, v in held.items()})
    assert_same(*gradients)


REFUSED: Final = {
    "reset gate": cells.gru(before_reset=False),
    "Sigmoid": cells.rnn("Sigmoid", mask="none"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_other_cells_run_step_by_step(reason: str) -> None:
    from caffe2_torch.recurrent import fuse, layer

    made = module(REFUSED[reason])
    assert not layers(made)
    assert fuse.fuse_cells(made._program, NetDef.FromString(made._net), {}, made.outputs) is made._program
    fed = cells.feed(REFUSED[reason], 3, 2)
    assert_same(made(fed), made.run(fed, made.outputs))
    with pytest.raises(NoMatchError, match=reason):
        layer.Layer(_cell(REFUSED[reason]), None, (), keeps_cell_state=False)  # type: ignore[arg-type] # not read


def _cell(cell: Recurrent) -> Any:
    from caffe2_bridge.cells.match import match_cells
    from caffe2_torch.recurrent.step_equations import read_step

    (op,) = (op for op in NetView(cell.net()).ops if op.type == "RecurrentNetwork")
    (found,) = match_cells(read_step(RecurrentNetwork(op).spec, {}))
    return found


def test_the_cell_state_of_every_step_needs_the_loop() -> None:
    cell = SPELLINGS["lstm"]
    made = module(cell, ("h_all", "c_all"))
    assert not layers(made)
    assert made(cells.feed(cell, 3, 2))["c_all"].shape == (3, 2, cells.WIDTH)


def test_operands_of_other_shapes_run_the_step_net() -> None:
    cell = SPELLINGS["lstm"]
    made = module(cell)
    fed = cells.feed(cell, 3, 2)
    flat = {**fed, "h_0": fed["h_0"][0], "c_0": fed["c_0"][0, 0]}
    assert_same(made(flat), made.run(flat, made.outputs))
    with pytest.raises(RunError, match="RecurrentNetwork: the initial state of 'h_states' has 3 rows"):
        made({**fed, "h_0": np.zeros((1, 3, cells.WIDTH), np.float32)})
    wrong = {**fed, "c_0": np.zeros((1, 2, cells.WIDTH + 1), np.float32)}
    with pytest.raises(RunError) as fused:
        made(wrong)
    with pytest.raises(RunError) as plain:
        made.run(wrong, made.outputs)
    assert str(fused.value) == str(plain.value)


def test_no_steps_end_as_the_step_net_does() -> None:
    cell = SPELLINGS["lstm"]
    made = module(cell)
    fed = cells.feed(cell, 0, 2)
    assert_same(made(fed), made.run(fed, made.outputs))


def test_a_change_of_a_parameter_is_seen() -> None:
    cell = SPELLINGS["lstm without lengths"]
    made = module(cell)
    fed = cells.feed(cell, 3, 2)
    with torch.no_grad():
        before = made(fed)["h_all"]
        made.w.data.mul_(2)  # which PyTorch's version of a tensor does not count
        assert not torch.equal(made(fed)["h_all"], before)
        assert_same(made(fed), made.run(fed, made.outputs))


@pytest.mark.parametrize("wanted", ["projected", "x"])
def test_a_projection_that_others_read_is_kept(wanted: str) -> None:
    cell = SPELLINGS["lstm"]
    net = cell.net()
    net.op.append(operator("Copy", [wanted], ["y"]))
    net.external_output.append("y")
    from caffe2_torch import to_torch

    made = to_torch(net, cell.init())
    assert layers(made)
    fed = cells.feed(cell, 3, 2)
    assert_same(made(fed), made.run(fed, made.outputs))


@pytest.mark.parametrize("changed", ["x", "i2h_b", "projected"])
def test_a_projection_of_what_has_changed_is_not_the_layers_own(changed: str) -> None:
    cell = SPELLINGS["lstm"]
    net = cell.net()
    rest = list(net.op)[1:]
    del net.op[1:]
    net.op.extend([operator("Scale", [changed], [changed], scale=0.5), *rest, operator("Copy", [changed], ["y"])])
    net.external_output.append("y")
    from caffe2_torch import to_torch

    made = to_torch(net, cell.init())
    assert [layer.source.columns for layer in layers(made)] == [None]
    fed = cells.feed(cell, 3, 2)
    assert_same(made(fed), made.run(fed, made.outputs))


GROUPS: Final = (
    "nets/rnn_cell_test", "nets/basic_rnn_test", "nets/recurrent_net_executor_test", "recorded/nets/recurrent",
)  # fmt: skip


def recorded() -> list[CaseRef]:
    refs = select(find_cases(GOLDEN), [], gradients=False, sample=1, executor="pytorch")
    return [ref for ref in refs if ref.group in GROUPS or ref.group.startswith("models/")]


def test_recorded_nets_equal_real_caffe2() -> None:
    """Leave out the cell states of every step, which are among the recorded outputs of most."""
    from caffe2_torch import to_torch

    found: dict[str, int] = {}
    for ref in recorded():
        case = read_case(ref)
        views = [RecurrentNetwork(op) for op in NetView(case.net).ops if op.type == "RecurrentNetwork"]
        cell_states = {a.blob for v in views for a in v.spec.aliases if a.offset == 1 and "cell" in a.source}
        outputs = [name for name in case.outputs if name not in cell_states]
        if not views or not outputs:
            continue
        made = to_torch(case.net, case.init_net, inputs=None if case.init_net else list(case.fed), outputs=outputs)
        for layer in layers(made):
            found[layer.cell.kind] = found.get(layer.cell.kind, 0) + 1
        if not layers(made):
            continue
        with torch.no_grad():
            results = made({n: v for n, v in case.inputs.items() if n in (*made.inputs, *made.names)})
        for name in outputs:
            np.testing.assert_allclose(results[name], case.outputs[name], rtol=1e-4, atol=1e-5, err_msg=ref.id)
    assert found.keys() == {"LSTM", "GRU", "RNN"}, found
    assert found["LSTM"] >= 50, found
