"""Recurrent nets: the backward step net stands in the operator, and its gradient runs it."""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward

family = Family("recurrent")


@family.differentiates("RecurrentNetwork")
def recurrent_network(op: Forward) -> None:
    """Gradients come in for some outputs, and go out for the sequence, the parameters and the initial states."""
    given = op.args.integers("outputs_with_grads", default=())
    if not given:
        raise op.error("argument 'outputs_with_grads' is missing or empty: the operator has no backward step net")
    parameters = op.args.integers("param", default=())
    states = op.args.integers("initial_recurrent_state_ids", default=())
    inputs = [*map(op.dy, given), *op.inputs, *op.outputs]
    op.emit("RecurrentNetworkGradient", inputs, [op.dx(index) for index in (0, *parameters, *states)])
