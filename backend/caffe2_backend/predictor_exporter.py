"""Caffe2's ``predictor_exporter``, the part that services use: load a predictor into the current workspace."""

from __future__ import annotations

from os import PathLike

from google.protobuf.message import Message

from caffe2_backend import workspace
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files import load
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef

_FORMATS = ("minidb",)


class LoadedNet:
    """A net with the interface of Caffe2's ``core.Net``."""

    def __init__(self, net: NetDef) -> None:
        self._net = net

    def Proto(self) -> NetDef:  # noqa: N802 - Caffe2's name
        """The net; it must not be changed."""
        return self._net

    def Name(self) -> str:  # noqa: N802 - Caffe2's name
        """The net's name."""
        return self._net.name


def prepare_prediction_net(
    filename: str | PathLike[str], db_type: str = "minidb", device_option: Message | None = None
) -> LoadedNet:
    """Load the parameters of a predictor database, create its net in the current workspace, and return the net.

    With ``device_option`` every operator gets it, as in Caffe2. Raises NetFormatError if the file is not a predictor
    database of this type, OSError if it cannot be read.
    """
    if db_type.lower() not in _FORMATS:
        raise NetFormatError(f"databases of type {db_type!r} are not supported, only minidb", str(filename))
    model = load(filename)
    net = NetDef()
    net.CopyFrom(model.predict_net)
    if device_option is not None:
        option = DeviceOption.FromString(device_option.SerializeToString())
        for op in net.op:
            op.device_option.CopyFrom(option)
    workspace.RunNetOnce(model.init)
    workspace.CreateNet(net)
    return LoadedNet(net)
