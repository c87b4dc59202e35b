"""Loops of plans that a counter ends, in bursts: the shape that Caffe2's ``control.For`` writes.

A step of two nets, of which the first is a CountDown alone whose result stops the step, runs the second net as often as
the counter says. Its iterations are steps of one net, as those of a step with a number of iterations are, and run in
bursts. Each takes its count from the counter when it begins, so that whoever shares the counter sees the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from caffe2_backend.runtime.calls.blob_workspace import Workspace
from caffe2_backend.runtime.host.objects.counters import HostCounter
from caffe2_bridge.control.names import all_names
from caffe2_bridge.proto.caffe2_pb2 import ExecutionStep, NetDef


@dataclass(frozen=True)
class CountedLoop:
    """A net that runs until a counter is at most 0.

    Attributes:
        counter: the blob of the counter.
        stop: the blob that holds whether the loop has ended.
        body: the name of the net.
    """

    counter: str
    stop: str
    body: str

    def run(self, workspace: Workspace, go_on: Callable[[], bool]) -> bool:
        """Run the loop while ``go_on`` is true; False, and nothing has run, if the blob is not a counter.

        Raises what a run of the net raises.
        """
        counter = workspace.host_object(self.counter)
        if not isinstance(counter, HostCounter):
            return False
        while go_on():
            ended = counter.add(-1) <= 0
            workspace.feed(self.stop, np.bool_(ended))
            if ended:
                break
            taken = _Counts(counter)
            steps = workspace.run_burst(self.body, taken.take)
            counter.add(taken.number - (steps - 1))  # a step that failed will begin again
        return True


class _Counts:
    """Takes counts from a counter that is above 0."""

    def __init__(self, counter: HostCounter) -> None:
        self._counter = counter
        self.number = 0

    def take(self) -> bool:
        if self._counter.add(-1) <= 0:
            self._counter.add(1)
            return False
        self.number += 1
        return True


def counted_loop(step: ExecutionStep, nets: Mapping[str, NetDef]) -> CountedLoop | None:
    """Return the loop that a step is; None if it is none, or the net reads or writes the counter or the result."""
    if not step.HasField("should_stop_blob") or step.only_once or step.report_net or len(step.network) != 2:
        return None
    test, body = (nets[name] for name in step.network)
    if [op.type for op in test.op] != ["CountDown"] or list(test.op[0].output) != [step.should_stop_blob]:
        return None
    own = {*test.op[0].input, *test.op[0].output}
    if len(own) != 2 or not own.isdisjoint(all_names(body)):
        return None
    return CountedLoop(test.op[0].input[0], step.should_stop_blob, step.network[1])
