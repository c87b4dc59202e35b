"""Convert the net to SSA form."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from caffe2_bridge.netdef.replace import with_operators
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.passes import FunctionalPass
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa import former_indices, rename_in_place
from caffe2_bridge.ssa.outputs import needed_operators
from caffe2_frontend.interop.shared_memory import check_shared_memory
from caffe2_frontend.interop.shared_operands import check_shared_operands
from caffe2_frontend.state import Export


class ConvertToSsa(FunctionalPass[Export]):
    """Rewrite the net so that every blob is written once; its inputs keep their names.

    An output that overwrites an input gets a new name, and the graph output with it. An operator that reads a blob
    without a value is left unchanged: the lowering reports it, in net order with all other diagnostics. Where the
    caller chooses the outputs, operators that these do not need are removed. Operators that must update a blob and
    write another are reported, and those that write memory which blobs share: SSA form does not show them.
    """

    ensures: ClassVar[frozenset[str]] = frozenset({"ssa"})

    def __call__(self, state: Export) -> Export:
        """Return the state with the net in SSA form."""
        predict = NetDef()
        predict.CopyFrom(state.predict)
        effects = rename_in_place(predict)
        outputs = tuple((name, name) for name in predict.external_output)
        indices = tuple(former_indices(predict))
        if state.options.outputs is not None:
            needed = needed_operators(predict, predict.external_output)
            if len(needed) < len(indices):
                indices = tuple(indices[place] for place in needed)
                predict = with_operators(predict, (predict.op[index] for index in needed))
        findings = [
            *state.findings,
            *check_shared_operands(state.predict, effects.ops, indices),
            *check_shared_memory(state.predict, effects, indices),
        ]
        return replace(state, net=NetView(predict), outputs=outputs, indices=indices, findings=tuple(findings))
