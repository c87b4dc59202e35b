"""Prepared nets: host fills, then stages, run on the blobs of a workspace."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from caffe2_backend.runtime.blobs.burst import ONCE, Burst
from caffe2_backend.runtime.blobs.frame import Frame
from caffe2_backend.runtime.blobs.host_fills import run_fill, split_fills
from caffe2_backend.runtime.blobs.results import Blobs, Results
from caffe2_backend.runtime.host.registry import require_known_operators
from caffe2_backend.runtime.memory import lack_of_memory
from caffe2_backend.runtime.placement.report import Placement
from caffe2_backend.runtime.plans.collecting import CollectingFrame
from caffe2_backend.runtime.plans.stages import make_stages
from caffe2_backend.runtime.plans.tensor_stage import Stage, TensorStage
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_backend.runtime.values import Tensor
from caffe2_bridge.diagnostics import Location
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef


@dataclass
class PreparedNet:
    """A net ready to run: the fills that run on the host, then the stages of the other operators.

    A net without host operators has one stage at most. ``is_constant``: it is a net, and no body, that reads nothing.
    """

    net: NetDef
    fills: tuple[OpView, ...]
    stages: tuple[Stage, ...]
    is_constant: bool
    runs: int = 0
    _counter: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        only = self.stages[0] if len(self.stages) == 1 and not self.fills else None
        self._program = only if isinstance(only, TensorStage) else None  # what the net is, if it is no more

    @property
    def conversions(self) -> int:
        """How many conversions there were so far."""
        return sum(stage.conversions for stage in self.stages)

    @property
    def keeps(self) -> bool:
        """Whether operators keep something from run to run."""
        return not all(isinstance(stage, TensorStage) and not stage.keeps for stage in self.stages)

    @property
    def states(self) -> tuple[str, ...]:
        """The blobs that its programs read and overwrite."""
        states = (name for stage in self.stages if isinstance(stage, TensorStage) for name in stage.states)
        return tuple(dict.fromkeys(states))

    @property
    def placements(self) -> list[Placement]:
        """Where the operators of its programs run that were placed automatically."""
        found = [stage.placement for stage in self.stages if isinstance(stage, TensorStage)]
        return [placement for placement in found if placement is not None]

    def run(self, frame: Frame, burst: Burst = ONCE) -> None:
        """Run once: a stage reads its inputs at one moment, and writes its results at one moment.

        A net that is one program may make a burst of steps, which does so as one step. Raises RunError where there is
        not enough memory, too.
        """
        try:
            if self._program is not None:
                self._program.run(frame, burst)
                return
            if self.fills:
                frame.commit(Results(self._fill(frame.draw_seed())), constant=self.is_constant)
            for stage in self.stages:
                stage.run(frame)
        except MemoryError as error:
            raise lack_of_memory(f"net {self.net.name!r}", error) from error

    def restart(self) -> None:
        """Run as if it had not run before: seeds start anew, and operators keep nothing."""
        self.runs = 0
        for stage in self.stages:
            stage.restart()

    def run_operator(self, blobs: Blobs, frame: Frame, whole: NetDef) -> Results:
        """Run a net of one operator on other blobs, as a step of the net ``whole``, and write nothing."""
        if self.fills:
            (fill,) = self.fills
            return Results({fill.outputs[0]: run_fill(fill, {}, whole, frame.draw_seed(), 0)})
        collecting = CollectingFrame(blobs, frame)
        self.stages[0].run(collecting)
        return collecting.results

    def _fill(self, seed: int) -> dict[str, Tensor]:
        with self._counter:
            self.runs += 1
            turn = self.runs - 1
        made: dict[str, Any] = {}
        for op in self.fills:
            made[op.outputs[0]] = run_fill(op, made, self.net, seed, turn)
        return made


def prepare_net(
    net: NetDef, device: str | None, options: SessionOptions, location: Location | None = None
) -> PreparedNet:
    """Prepare a net. It is converted when it first runs.

    Args:
        net: the net, which is copied.
        device: see :func:`make_program`.
        options: of sessions.
        location: of a body; None for other nets.

    Raises RunError for an operator without outputs of which nothing is known.
    """
    require_known_operators(net, without_outputs=True)
    own = NetDef()
    own.CopyFrom(net)
    init = is_init_net(own)
    fills, rest = split_fills(own) if init else ((), own)
    here = location or Location(net.name or "net")

    def prepare_body(body: NetDef, inside: Location) -> PreparedNet:
        return prepare_net(body, device, options, inside)

    constant = init and location is None
    stages = make_stages(rest, device, options, here, prepare_body, constant=constant) if rest.op else ()
    return PreparedNet(own, fills, stages, constant)


def is_init_net(net: NetDef) -> bool:
    """Whether a net reads nothing that it does not make."""
    made: set[str] = set()
    for op in net.op:
        if not made.issuperset(op.input) or any(arg.HasField("n") or arg.nets for arg in op.arg):
            return False
        made.update(op.output)
    return True
