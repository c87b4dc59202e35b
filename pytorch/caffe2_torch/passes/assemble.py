"""Find the function of every operator."""

from __future__ import annotations

from dataclasses import replace

from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_bridge.passes import FunctionalPass
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_torch.assembly import compile_net
from caffe2_torch.conversion import Conversion


class Assemble(FunctionalPass[Conversion]):
    """``[FC, Relu]``  =>  ``[ProgramStep(fc), ProgramStep(relu)]``, and a diagnostic for each that has no function."""

    requires = frozenset({"outputs"})
    ensures = frozenset({"program"})

    def __call__(self, state: Conversion) -> Conversion:
        """Compile the init net's operators too, but for those that fold to constants."""
        findings: list[Diagnostic] = []
        net = state.model.predict_net
        rest = NetDef(name="init", op=[op.proto for op in state.model.init.rest])
        return replace(
            state,
            initialize=compile_net(rest, Location("init"), findings),
            program=compile_net(net, Location(net.name or "predict"), findings),
            findings=(*state.findings, *findings),
        )
