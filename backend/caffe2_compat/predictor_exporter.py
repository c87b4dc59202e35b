"""Caffe2's ``predictor_exporter``: save the predictor in the current workspace to a database, and load one."""

from __future__ import annotations

from os import PathLike, fspath

from google.protobuf.message import Message

from caffe2_bridge.diagnostics import BuildError, OptionError
from caffe2_bridge.files import load
from caffe2_bridge.files.blobs.record_writer import Record, tensor_records, text_record
from caffe2_bridge.files.loader import load_meta
from caffe2_bridge.files.predictor_db import META_NET_DEF, PREDICT_INIT_NET
from caffe2_bridge.files.saver import DATABASES, save_records
from caffe2_bridge.netdef.parameters import Int8Tensor, Parameter
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef
from caffe2_bridge.proto.metanet_pb2 import MetaNetDef
from caffe2_compat import workspace
from caffe2_compat.predictor_export_meta import PredictorExportMeta, get_meta_net_def, set_model_info

__all__ = [
    "LoadedNet",
    "PredictorExportMeta",
    "get_meta_net_def",
    "load_from_db",
    "prepare_prediction_net",
    "save_to_db",
    "set_model_info",
]


class LoadedNet:
    """A net with the interface of Caffe2's ``core.Net``."""

    def __init__(self, net: NetDef) -> None:
        self._net = net

    def Proto(self) -> NetDef:  # noqa: N802 - Caffe2's name
        """Return the net; it must not be changed."""
        return self._net

    def Name(self) -> str:  # noqa: N802 - Caffe2's name
        """Return the net's name."""
        return self._net.name


def save_to_db(
    db_type: str,
    db_destination: str | PathLike[str],
    predictor_export_meta: PredictorExportMeta,
    use_ideep: bool = False,
) -> None:
    """Save a predictor to a database that Caffe2's ``prepare_prediction_net`` loads.

    Args:
        db_type: ``minidb``, or ``lmdb`` or ``leveldb`` (both require the extra ``db``).
        db_destination: the file, or the folder of the last two. A failed save leaves what was there.
        predictor_export_meta: the net, and the roles of its blobs. The values of parameters, and the shapes of inputs
            and outputs that it does not have, are those in the current workspace.
        use_ideep: ignored; the parameters are read from the host.

    Raises:
        OptionError: the type is none of these.
        BuildError: the net reads a blob that is neither an input nor a parameter: Caffe2 could not load it.
        NoBlobError: a blob does not exist in the workspace.
        RunError: a parameter is not a tensor.
        BridgeError: the database cannot be written.
    """
    del use_ideep
    _require(db_type)
    _check_reads(predictor_export_meta)
    meta = get_meta_net_def(predictor_export_meta)
    # Databases that sort their records take them in order. The nets' key sorts first.
    records: list[Record] = [text_record(META_NET_DEF, meta.SerializeToString())]
    for name in sorted(set(predictor_export_meta.parameters)):
        records += _records(name)
    save_records(records, db_destination, db_type.lower())


def _check_reads(meta: PredictorExportMeta) -> None:
    known = {*meta.inputs, *meta.parameters}
    unknown: dict[str, None] = {}
    for op in meta.predict_net.op:
        unknown.update((name, None) for name in op.input if name not in known)
        known.update(op.output)
    if unknown:
        names = ", ".join(unknown)
        raise BuildError(f"net {meta.predict_net.name!r} reads {names}, which are neither inputs nor parameters")


def _records(name: str) -> list[Record]:
    value = workspace.current().fetch(name)
    if isinstance(value, bytes):
        return [text_record(name, value)]
    data, scale, zero_point = value if isinstance(value, Int8Tensor) else (value, None, None)
    return list(tensor_records(Parameter(name, data.dtype, data.shape, lambda: data, scale, zero_point)))


def _require(db_type: str) -> None:
    if db_type.lower() not in DATABASES:
        raise OptionError(f"db_type must be one of {', '.join(DATABASES)}, not {db_type!r}")


def load_from_db(
    filename: str | PathLike[str], db_type: str = "minidb", device_option: Message | None = None
) -> MetaNetDef:
    """Read the nets in a predictor database and the roles of their blobs.

    With ``device_option`` every operator gets it, as in Caffe2. The parameters are not loaded;
    :func:`prepare_prediction_net` does that.

    Raises NetFormatError if the file is not a predictor database, OptionError if the type is not supported.
    """
    _require(db_type)
    meta = load_meta(fspath(filename))
    if device_option is not None:
        for item in meta.nets:
            _place(item.value, device_option)
    return meta


def _place(net: NetDef, device_option: Message) -> None:
    option = DeviceOption.FromString(device_option.SerializeToString())
    for op in net.op:
        op.device_option.CopyFrom(option)


def prepare_prediction_net(
    filename: str | PathLike[str], db_type: str = "minidb", device_option: Message | None = None
) -> LoadedNet:
    """Load the parameters of a predictor database, create its net in the current workspace, and return the net.

    As in Caffe2, inputs and outputs exist afterwards, filled with zeros; and with ``device_option`` every operator gets
    it.

    Raises NetFormatError if the file is not a predictor database, OptionError if the type is not supported.
    """
    meta = load_from_db(filename, db_type, device_option)
    model = load(filename)
    net = NetDef()
    net.CopyFrom(model.predict_net)
    if device_option is not None:
        _place(net, device_option)
    workspace.RunNetOnce(model.init)
    _fill_inputs(meta)
    workspace.CreateNet(net)
    return LoadedNet(net)


def _fill_inputs(meta: MetaNetDef) -> None:
    """Run the operators of the predict init net that the model's init net lacks: the fills of inputs and outputs."""
    for item in meta.nets:
        if item.key == PREDICT_INIT_NET:
            known = set(workspace.Blobs())
            fills = [op for op in item.value.op if not known.issuperset(op.output)]
            workspace.RunNetOnce(NetDef(name=item.value.name, op=fills))
