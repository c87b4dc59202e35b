"""Read arguments that name a data type, as Cast's."""

from __future__ import annotations

from caffe2_bridge.netdef.views import Args, ArgumentError
from caffe2_bridge.proto.caffe2_pb2 import TensorProto


def data_type(args: Args, name: str, default: int | None = None) -> int:
    """Return a number of TensorProto.DataType from an argument that holds it, or its name in any case.

    Raises ArgumentError if the argument is missing and has no default, is neither an integer nor a string, or is a
    string that does not name a data type.
    """
    raw = args.raw(name)
    if raw is None or not raw.HasField("s"):
        return args.integer(name) if default is None else args.integer(name, default=default)
    text = args.text(name).upper()
    if text not in TensorProto.DataType.keys():  # noqa: SIM118 - an enum's wrapper, not a dict
        raise ArgumentError(f"argument {name!r} must name a data type, not {text!r}")
    return TensorProto.DataType.Value(text)
