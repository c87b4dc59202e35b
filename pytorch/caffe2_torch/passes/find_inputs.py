"""Find the blobs to feed."""

from __future__ import annotations

from dataclasses import replace

from caffe2_bridge.diagnostics import Location
from caffe2_bridge.passes import FunctionalPass
from caffe2_bridge.ssa.effects import analyse
from caffe2_torch.conversion import Conversion


class FindInputs(FunctionalPass[Conversion]):
    """The blobs that the operators, or the outputs, find, and that the init net does not fill."""

    requires = frozenset({"program"})
    ensures = frozenset({"inputs"})

    def __call__(self, state: Conversion) -> Conversion:
        """Find the inputs in the order of the net's external inputs."""
        net, init = state.model.predict_net, state.model.init
        filled = {*init.parameters, *(name for op in init.rest for name in op.outputs)}
        effects = analyse(net, Location(net.name or "predict"), [])
        created = {name for op in net.op for name in op.output}
        # What an operator may find, and does without: a blob of an If that nothing has written, say.
        kept = {*effects.soft, *effects.through} & {*net.external_input}
        found = {*effects.exposed, *kept, *(name for name in state.outputs if name not in created)} - filled
        declared = [name for name in dict.fromkeys((*state.model.inputs, *effects.found)) if name in found]
        return replace(state, inputs=tuple(name for name in declared if name))
