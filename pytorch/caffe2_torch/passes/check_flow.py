"""Check that every blob has a value when it is read."""

from __future__ import annotations

from dataclasses import replace

from caffe2_bridge.diagnostics import Location
from caffe2_bridge.passes import FunctionalPass
from caffe2_bridge.ssa import check_dataflow
from caffe2_torch.conversion import Conversion


class CheckFlow(FunctionalPass[Conversion]):
    """Report blobs that are read before anything writes them."""

    requires = frozenset({"outputs"})

    def __call__(self, state: Conversion) -> Conversion:
        """Check the dataflow; blobs that the init net fills count as written."""
        net, init = state.model.predict_net, state.model.init
        known = {*init.parameters, *init.placeholders, *(name for op in init.rest for name in op.outputs)}
        findings = check_dataflow(net, known, location=Location(net.name or "predict"))
        return replace(state, findings=(*state.findings, *findings))
