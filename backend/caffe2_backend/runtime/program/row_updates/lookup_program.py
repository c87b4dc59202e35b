"""Programs of nets apart from a workspace that begin with lookups in tables: loops, and onnxruntime the rest.

Where the loops do not take what a run is given, such as ids that are no rows, onnxruntime runs the whole net, as an
exported model. A table among the parameters is in memory twice from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

from caffe2_backend.runtime.blobs.burst import ONCE, Burst
from caffe2_backend.runtime.blobs.results import Blobs, Results
from caffe2_backend.runtime.devices.device_names import CPU
from caffe2_backend.runtime.program.interface import NetInterface
from caffe2_backend.runtime.program.origin import Origin
from caffe2_backend.runtime.program.program import Program
from caffe2_backend.runtime.program.row_updates.lookups import as_plain, takes
from caffe2_backend.runtime.program.row_updates.parts import Lookups, Loop, Parts
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_backend.runtime.values import Array, Value
from caffe2_bridge.diagnostics import ConversionError, RunError
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef


class LookupProgram:
    """A net with parameters on the host that begins with lookups; the interface is that of Program.

    Several threads may run it at the same time.

    Args:
        net: the net; it must not be changed any more.
        lookups: the operators that loops run.
        options, origin, init, feeds: see Program.
    """

    updates_in_place = False

    def __init__(
        self,
        net: NetDef,
        lookups: Lookups,
        options: SessionOptions,
        origin: Origin,
        init: InitNet,
        feeds: Mapping[str, str],
    ) -> None:
        self.interface = NetInterface.of(net, init, state=False)
        self.name = NetView(net).name
        self._whole = Program(net, CPU, options, init=init, state=False, origin=origin, feeds=feeds)
        self._is_whole = False
        self._loops = [
            (Loop.of(op, form), [need for need in form.needs if op.inputs[need.operand] not in init.parameters])
            for op, form in lookups
        ]
        self._init = init
        made = {name for op, _ in lookups for name in op.outputs}
        tables = {op.inputs[form.table or 0] for op, form in lookups}
        rest, ops = Parts(lookups).rest(net)
        self._rest = Program(
            rest,
            CPU,
            options,
            init=init.with_inputs({*tables, *made}),
            state=False,
            origin=Origin(origin.net, [origin.index(op.index) for op in ops]),
            feeds=feeds,
        )
        self._inputs = (*self._rest.interface.needs, *self._rest.interface.may_need)
        self._outputs = (*self.interface.required, *self.interface.optional)
        self._is_rest = made.isdisjoint(self._outputs)  # whether the outputs are those of the rest

    @property
    def conversions(self) -> int:
        """How many conversions there were so far."""
        return self._rest.conversions + self._whole.conversions

    @cached_property
    def _parameters(self) -> Mapping[str, Array]:
        """The parameters that loops read, as these take them."""
        read = {name for loop, _ in self._loops for name in loop.inputs if name in self._init.parameters}
        return {name: as_plain(self._init.parameters[name].load()) for name in read}

    def collect(self, blobs: Blobs) -> dict[str, Value]:
        """Return the blobs that the net reads. Raises NoBlobError if one is missing that it reads in any case."""
        return self._whole.collect(blobs)

    def run(
        self,
        given: Mapping[str, Value],
        constants: Mapping[str, Value] = MappingProxyType({}),
        burst: Burst = ONCE,
        held: int = 0,
    ) -> Results:
        """Run once; the arguments are those of :meth:`Program.run`."""
        if not self._is_whole and (found := self._look_up({**self._parameters, **given})) is not None:
            known = self._rest.recognize(found.get)
            try:
                results = self._rest.run(known or {name: found[name] for name in self._inputs if name in found})
            except ConversionError:  # the whole net knows more, such as the sizes of tables, or says what is refused
                results = self._whole.run(given, constants, burst, held)
                self._is_whole = True
                return results
            return results if self._is_rest else self._with_looked_up({**found, **results.values})
        return self._whole.run(given, constants, burst, held)

    def _with_looked_up(self, values: Mapping[str, Any]) -> Results:
        return Results({name: values[name] for name in self._outputs if name in values})

    def _look_up(self, values: dict[str, Value]) -> dict[str, Any] | None:
        """Return values and what is looked up; None for operands that the loops do not take."""
        for loop, needs in self._loops:
            operands = list(map(values.get, loop.inputs))
            if not takes(needs, operands):
                return None
            try:
                values.update(zip(loop.op.outputs, loop.run(operands), strict=True))
            except RunError:
                return None
        return values
