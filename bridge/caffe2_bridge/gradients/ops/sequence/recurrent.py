"""The gradient of RecurrentNetwork, which runs the backward step net that the operator carries."""

from __future__ import annotations

from caffe2_bridge.control import RecurrentNetwork
from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward
from caffe2_bridge.netdef.views import OpView

family = Family("recurrent")


@family.differentiates("RecurrentNetwork")
def recurrent_network(op: Forward) -> None:
    """RecurrentNetworkGradient(dY..., inputs..., outputs...) -> dsequence, dparameters..., dinitial_states...

    The gradients dY are those of the outputs that ``outputs_with_grads`` lists.
    """
    control = RecurrentNetwork(OpView(op.proto, 0))
    given = control.outputs_with_gradients
    if not given:
        raise op.error("argument 'outputs_with_grads' is missing or empty: the operator has no backward step net")
    inputs = [*map(op.dy, given), *op.inputs, *op.outputs]
    learned = (0, *control.parameters, *control.initial_ids)
    op.emit("RecurrentNetworkGradient", inputs, [op.dx(index) for index in learned])
