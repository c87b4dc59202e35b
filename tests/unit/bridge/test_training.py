"""What training nets update and minimize."""

from __future__ import annotations

import pytest
from support.nets import net
from support.training import linear_classifier, read_program

from caffe2_bridge.init.init_net import read_init_net
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.training import (
    computes_gradients,
    find_losses,
    is_gradient_operator,
    training_net,
    training_outputs,
)


def filled(init: NetDef) -> set[str]:
    return {name for op in init.op for name in op.output}


def test_parameters_states_and_counters_are_updated() -> None:
    train, init = linear_classifier()
    found = training_net(train, filled(init))
    assert found is not None
    assert found.losses == ("loss",)
    assert set(found.updated) == {"w", "b", "w_momentum", "iter"}
    assert set(found.gradients) == {"w_grad", "b_grad"}
    assert found.metrics == ("accuracy",)
    assert training_outputs(train, found) == ("loss", "accuracy")


def test_without_an_init_net_updates_depend_on_gradients_or_must_be_in_place() -> None:
    train, init = linear_classifier()
    train.op.insert(0, OperatorDef(type="Relu", input=["data"], output=["data"]))
    found, known = training_net(train), training_net(train, filled(init))
    assert found is not None
    assert known is not None
    assert found.updated == known.updated


def test_declared_outputs_come_after_the_losses() -> None:
    train, init = linear_classifier()
    train.external_output.extend(["w", "prob"])
    found = training_net(train, filled(init))
    assert found is not None
    assert training_outputs(train, found) == ("loss", "prob")


def test_a_recorded_program() -> None:
    program = read_program("mlp_adam")
    found = training_net(program.train, filled(program.init))
    assert found is not None
    assert set(found.updated) == set(program.final)
    assert found.losses == (program.loss,)


@pytest.mark.parametrize("op_type", ["NegateGradient", "StopGradient", "Relu"])
def test_forward_operators(op_type: str) -> None:
    assert not is_gradient_operator(op_type)
    forward = net(OperatorDef(type=op_type, input=["x"], output=["x"]), outputs="x")
    assert not computes_gradients(forward)
    assert training_net(forward, {"x"}) is None


def test_gradients_without_updates_are_not_training() -> None:
    train, init = linear_classifier()
    del train.op[-3:]
    assert computes_gradients(train)
    assert training_net(train, filled(init)) is None


def test_fills_of_zeros_and_of_shapes_do_not_start_gradients() -> None:
    train, _ = linear_classifier()
    (start,) = [op for op in train.op if op.type == "ConstantFill"]
    assert find_losses(train) == ("loss",)
    start.arg[0].f = 0.0
    assert find_losses(train) == ()


def test_small_fills_of_a_training_net_are_parameters() -> None:
    train, init = linear_classifier()
    model = Model.of(train, read_init_net(init))
    assert not model.init.placeholders
    assert model.inputs == ("data", "label")
