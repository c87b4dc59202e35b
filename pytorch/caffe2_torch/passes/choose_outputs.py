"""Choose the outputs, and keep the operators that compute them."""

from __future__ import annotations

from dataclasses import replace

from caffe2_bridge.diagnostics import Location
from caffe2_bridge.passes import FunctionalPass
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.effects import analyse
from caffe2_bridge.ssa.outputs import net_outputs, omitted_outputs
from caffe2_bridge.training import computes_gradients, find_losses, is_gradient_operator
from caffe2_torch.conversion import Conversion


class ChooseOutputs(FunctionalPass[Conversion]):
    """``x -> FC -> y -> loss -> FCGradient -> Adam``  =>  ``x -> FC -> y -> loss``."""

    ensures = frozenset({"outputs"})

    def __call__(self, state: Conversion) -> Conversion:
        """Leave out what no output needs: of a training net, gradients and updates."""
        net = state.model.predict_net
        notes = omitted_outputs(net, state.model.outputs) if state.asked is None else []
        outputs = net_outputs(net, state.asked)
        if state.asked is None and computes_gradients(net):
            outputs = _forward_outputs(net, outputs)
        model = state.model.with_outputs(outputs)
        return replace(state, model=model, outputs=outputs, findings=(*state.findings, *notes))


def _forward_outputs(net: NetDef, outputs: tuple[str, ...]) -> tuple[str, ...]:
    """Return the losses, and the outputs that do not depend on a gradient."""
    backward: set[str] = set()
    effects = analyse(net, Location(net.name or "net"), [])
    for proto, op in zip(net.op, effects.ops, strict=True):
        if is_gradient_operator(proto.type) or not backward.isdisjoint(op.used):
            backward.update(op.changed)
    return tuple(dict.fromkeys((*find_losses(net), *(name for name in outputs if name not in backward))))
