"""The model that a function is given: nets in memory, a loaded model, or their paths."""

from __future__ import annotations

import os
from typing import TypeAlias

from google.protobuf.message import Message

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.files.loader import load, load_init_net
from caffe2_bridge.model import Model
from caffe2_bridge.plans import plan_net
from caffe2_bridge.proto.caffe2_pb2 import PlanDef
from caffe2_bridge.wire.messages import is_message

NetLike: TypeAlias = Message | bytes | str | os.PathLike[str]


def as_model(predict_net: NetLike | Model, init_net: NetLike | None = None) -> Model:
    """Return the nets as a model; a plan becomes one net.

    Args:
        predict_net: a NetDef, its bytes, a PlanDef, a loaded model, or a path or URL that ``load`` reads.
        init_net: the net that fills the parameters, or its path or URL; not with a loaded model, which has its own.

    Raises:
        NetFormatError: an argument is not a net, or a file cannot be read.
        ConversionError: a plan cannot be converted to one net.
        OptionError: the scheme of a URL is not accepted, or an init net is given with a loaded model.
    """
    if isinstance(predict_net, Model):
        if init_net is not None:
            raise OptionError("init_net must not be given with a loaded model, which has its own")
        return predict_net
    if isinstance(predict_net, str | os.PathLike):
        if init_net is None or isinstance(init_net, str | os.PathLike):
            return load(predict_net, init_net)
        loaded = load(predict_net)
        return Model.of(loaded.predict_net, init_net, loaded.source)
    if is_message(predict_net, "PlanDef"):
        predict_net = plan_net(PlanDef.FromString(predict_net.SerializeToString()))
    if isinstance(init_net, str | os.PathLike):
        return Model.of(predict_net, load_init_net(init_net))
    return Model.of(predict_net, init_net)
