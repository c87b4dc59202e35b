"""The init net of a trained net."""

from __future__ import annotations

from collections.abc import Mapping

from caffe2_backend.runtime.values import Array
from caffe2_bridge import construct_init_net_from_params
from caffe2_bridge.init.fills import RANDOM
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef


def random_fills(model: Model) -> tuple[str, ...]:
    """Return the blobs that the init net fills with random numbers."""
    return tuple(name for op in model.init_net.op if op.type in RANDOM for name in op.output)


def with_values(model: Model, values: Mapping[str, Array]) -> Model:
    """Return the model whose init net gives blobs other values; everything else in the init net stays.

    A fill of ``values`` takes the place of the first operator that writes only such blobs; what other operators write,
    too, is filled at the end.
    """
    net = NetDef()
    net.CopyFrom(model.init_net)
    net.ClearField("op")
    filled: set[str] = set()
    for op in model.init_net.op:
        if not op.output or not values.keys() >= set(op.output):
            net.op.append(op)
            filled.difference_update(op.output)
            continue
        new = {name: values[name] for name in op.output if name not in filled}
        net.op.extend(construct_init_net_from_params(new).op)
        filled.update(new)
    rest = {name: value for name, value in values.items() if name not in filled}
    if rest:
        net.op.extend(construct_init_net_from_params(rest).op)
    return Model.of(model.predict_net, net, model.source)
