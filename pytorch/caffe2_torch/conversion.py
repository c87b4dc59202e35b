"""The state of a conversion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from caffe2_bridge.diagnostics import Diagnostic
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_torch.evaluation.program import Program
from caffe2_torch.evaluation.values import Value


@dataclass(frozen=True)
class Conversion:
    """A net on its way to a module.

    Attributes:
        model: the net with its parameters.
        asked: the outputs that the caller asks for; None for the net's own.
        inputs: the blobs to feed, in order.
        outputs: the blobs to return, in order.
        program: the operators, ready to run.
        initialize: the operators of the init net that are no constants, ready to run once.
        values: what these compute.
        findings: diagnostics, in net order.
    """

    model: Model
    asked: tuple[str, ...] | None = None
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    program: Program | None = None
    initialize: Program | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    findings: tuple[Diagnostic, ...] = ()

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The constants of the init net, by blob."""
        return self.model.init.parameters
