"""The program of a net, by its device options and the device that is asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TypeAlias

from caffe2_backend.runtime.devices.device_names import CPU, names_devices, names_gpu
from caffe2_backend.runtime.partition.staged import StagedProgram
from caffe2_backend.runtime.placement.automatic import PlacedProgram
from caffe2_backend.runtime.program.origin import Origin
from caffe2_backend.runtime.program.program import Program
from caffe2_backend.runtime.program.row_updates.lookup_program import LookupProgram
from caffe2_backend.runtime.program.row_updates.parts import first_lookups, row_updates
from caffe2_backend.runtime.program.row_updates.program import RowUpdateProgram
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_bridge.diagnostics import Location
from caffe2_bridge.diagnostics.log import log_new_diagnostics
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.outputs import omitted_outputs

Runnable: TypeAlias = Program | StagedProgram | PlacedProgram | RowUpdateProgram | LookupProgram


def make_program(
    net: NetDef,
    device: str | None,
    options: SessionOptions,
    *,
    init: InitNet | None = None,
    state: bool = True,
    keep: Collection[str] = (),
    origin: Origin | None = None,
    updated: Collection[str] = (),
    feeds: Mapping[str, str] = MappingProxyType({}),
) -> Runnable:
    """Make the program for a net.

    Args:
        net: the net; it must not be changed any more.
        device: None follows the net's device options; ``cpu`` ignores them; a GPU runs what it can of a net without
            options there, and replaces the GPUs that options name.
        options: of sessions.
        init: parameters that are constants.
        state: see Program.
        keep: see Program.
        origin: see Program.
        updated: see Program.
        feeds: of a net on the host, see Program.
    """
    log_new_diagnostics(omitted_outputs(net))
    if names_devices(net) and device != CPU and (device is not None or names_gpu(net)):
        return StagedProgram(net, options, device, init=init, state=state, keep=keep, origin=origin, updated=updated)
    if device is None or device == CPU:
        here = origin or Origin(Location(NetView(net).name))
        known, loops = init or InitNet(), options.loops and not options.providers and not options.optimized
        if loops and state and init is None and (parts := row_updates(net, here.net)):
            return RowUpdateProgram(net, parts, options, keep, here, updated)
        if loops and not state and (lookups := first_lookups(net, known, here.net)):
            return LookupProgram(net, lookups, options, here, known, feeds)
        return Program(net, CPU, options, keep, init=init, state=state, origin=origin, updated=updated, feeds=feeds)
    return PlacedProgram(net, device, options, init=init, state=state, keep=keep, origin=origin, updated=updated)
