"""Leave out what of an init net nothing reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from caffe2_bridge.control import nets_run_by
from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.init.init_net import Chunks, InitNet
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.ssa.objects import follow_index


def without_unneeded(init: InitNet, names: Iterable[str]) -> InitNet:
    """Return the init net without operators that compute none of some blobs, fills apart, which cost nothing.

    A training init net creates databases and counters that a deploy net does not read.
    """
    wanted, unfrozen = set(names), set[str]()
    needed: list[OpView] = []
    changed = [(*op.outputs, *follow_index(op.proto, unfrozen)) for op in init.rest]
    for op, changes in zip(reversed(init.rest), reversed(changed), strict=True):
        if not wanted.isdisjoint(changes) or any(nets_run_by(op)):
            needed.append(op)
            wanted.update(op.inputs)
    return with_rest(init, needed[::-1])


def with_rest(init: InitNet, rest: Sequence[OpView]) -> InitNet:
    """Return the init net with some of its operators that are not fills; itself, if these are all of them."""
    if len(rest) == len(init.rest):
        return init
    parameters = {**init.placeholders, **init.parameters}

    def serialized() -> Chunks:
        yield from fill_net(parameters.values(), (op.proto for op in rest))

    return dataclasses.replace(init, rest=tuple(rest), serialized=serialized)
