"""Operators that ONNX exports of detection models leave as ATen calls."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import Message

from caffe2_bridge.control import edit_bodies, is_control
from caffe2_bridge.netdef.views import OpView, as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

_NAMES: Final = {"num_groups": "group", "eps": "epsilon"}
_DROPPED: Final = frozenset({"operator", "cudnn_enabled", "overload_name"})


def group_norm_replace_aten_with_caffe2(predict_net: Message | bytes) -> NetDef:
    """Return the net with ``GroupNorm`` for each ``ATen`` operator that is a group_norm, in bodies too.

    ``num_groups`` becomes ``group`` and ``eps`` becomes ``epsilon``, which GroupNorm reads.
    """
    net = NetDef()
    net.CopyFrom(as_net_def(predict_net, "predict_net"))
    _replace(net)
    return net


def _replace(net: NetDef) -> None:
    for index, proto in enumerate(net.op):
        if proto.type == "ATen" and OpView(proto, index).args.text("operator", default="") == "group_norm":
            _to_group_norm(proto)
        if is_control(proto):
            edit_bodies(proto, _replace)
            continue
        for arg in proto.arg:
            if arg.HasField("n"):
                _replace(arg.n)


def _to_group_norm(proto: OperatorDef) -> None:
    args = [arg for arg in proto.arg if arg.name not in _DROPPED]
    for arg in args:
        arg.name = _NAMES.get(arg.name, arg.name)
    replaced = OperatorDef()
    replaced.CopyFrom(proto)
    replaced.type = "GroupNorm"
    replaced.ClearField("arg")
    replaced.arg.extend(args)
    proto.CopyFrom(replaced)
