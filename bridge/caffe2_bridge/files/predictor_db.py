"""Predictor databases, as Caffe2's predictor exporter writes them: nets, roles of their blobs, and parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from google.protobuf.message import DecodeError

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files.blobs.record_writer import Record, tensor_records, text_record
from caffe2_bridge.files.blobs.records import Blob
from caffe2_bridge.files.blobs.stored_indices import read_blobs
from caffe2_bridge.files.plan_files import read_plan
from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.init.init_net import InitNet, read_init_net
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.names import require_text, require_text_in_net
from caffe2_bridge.netdef.parameters import NUMBERS, Parameter
from caffe2_bridge.netdef.replace import with_operators
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.proto.metanet_pb2 import BlobsMap, MetaNetDef, NetsMap
from caffe2_bridge.wire.messages import parse_message

# Caffe2's keys of the stored items (PredictorConsts).
META_NET_DEF: Final = "!!META_NET_DEF"
DB_READER: Final = "!!PREDICTOR_DBREADER"
PARAMETERS: Final = "PARAMETERS_BLOB_TYPE"
INPUTS: Final = "INPUTS_BLOB_TYPE"
OUTPUTS: Final = "OUTPUTS_BLOB_TYPE"
GLOBAL_INIT_NET: Final = "GLOBAL_INIT_NET_TYPE"
PREDICT_INIT_NET: Final = "PREDICT_INIT_NET_TYPE"
PREDICT_NET: Final = "PREDICT_NET_TYPE"


def read_meta(stored: Mapping[str, Blob]) -> MetaNetDef:
    """Read the nets in a predictor database, and the roles of their blobs.

    Raises NetFormatError, without a source, if the database lacks them or is damaged.
    """
    if META_NET_DEF not in stored:
        names = ", ".join(list(stored)[:5]) or "none"
        raise NetFormatError(
            f"this is a database of blobs ({names} ...) without a net: key {META_NET_DEF!r} is missing"
        )
    try:
        meta = parse_message(MetaNetDef, stored[META_NET_DEF].text())
    except DecodeError as error:
        raise NetFormatError(f"the value of {META_NET_DEF!r} is not a MetaNetDef: {error}") from None
    require_text((item.key for item in meta.nets), META_NET_DEF)
    require_text((item.key for item in meta.plans), META_NET_DEF)
    require_text((name for item in meta.blobs for name in (item.key, *item.value)), META_NET_DEF)
    for net in (*(item.value for item in meta.nets), *(net for item in meta.plans for net in item.value.network)):
        require_text_in_net(net)
    return meta


def read_predictor(stored: Mapping[str, Blob], source: str, predictor: str | None = None) -> Model:
    """Read the model in a predictor database.

    Args:
        stored: the blobs of the database, by name.
        source: the path of the database.
        predictor: the name of the predictor, if there are several; the empty string for the one without a name.

    Raises:
        NetFormatError: (without a source) the database lacks the predictor, or has several and none is named, or is
            damaged.
    """
    meta = read_meta(stored)
    nets = {item.key: item.value for item in meta.nets}
    roles = {item.key: list(item.value) for item in meta.blobs}
    plans = {item.key: item.value for item in meta.plans}
    suffix = _predictor_suffix([*nets, *plans], predictor)
    tensors, made = _stored_parameters(nets, roles, suffix, stored)
    init = read_init_net(_without_loads(nets.get(GLOBAL_INIT_NET + suffix), made), tensors)
    key = PREDICT_NET + suffix
    if key in nets:
        predict_net = nets[key]
    else:
        planned = read_plan(plans[key])
        predict_net = planned.predict
        init = init if planned.init is None else _followed_by(init, planned.init)
    own = nets.get(PREDICT_INIT_NET + suffix)
    inputs = [*roles.get(INPUTS + suffix, ()), *roles.get(OUTPUTS + suffix, ())]
    if own is not None:
        init = _followed_by(init, own)
    init = init.with_inputs(inputs)
    parameters, rest = init.parameters, init.rest

    def serialized() -> Iterator[bytes | memoryview]:
        yield from fill_net(parameters.values(), (op.proto for op in rest))

    return Model(predict_net, dataclasses.replace(init, serialized=serialized), source)


def _predictor_suffix(keys: list[str], predictor: str | None) -> str:
    """Return the suffix of the keys of a predictor: empty, or ``_`` and its name."""
    suffixes = [
        key.removeprefix(PREDICT_NET) for key in keys if key == PREDICT_NET or key.startswith(f"{PREDICT_NET}_")
    ]
    names = ", ".join(repr(suffix[1:]) for suffix in suffixes)
    if not suffixes:
        raise NetFormatError(f"the database has no predict net; its nets are {', '.join(keys) or 'none'}")
    if predictor is not None:
        suffix = f"_{predictor}" if predictor else ""
        if suffix not in suffixes:
            raise NetFormatError(f"the database does not have predictor {predictor!r}; it has {names}")
        return suffix
    if "" in suffixes:
        return ""
    if len(suffixes) > 1:
        raise NetFormatError(f"the database has several predictors: {names}; name one (predictor=...)")
    return suffixes[0]


def _stored_parameters(
    nets: Mapping[str, NetDef], roles: Mapping[str, list[str]], suffix: str, stored: Mapping[str, Blob]
) -> tuple[dict[str, Parameter], list[OperatorDef]]:
    """Return the parameters that the global init net loads; without such a net, those with the role of parameters.

    Also the operators that make those that are no tensors.
    """
    net = nets.get(GLOBAL_INIT_NET + suffix)
    loaded = [name for op in net.op if _is_load(op) for name in op.output] if net is not None else []
    names = loaded or roles.get(PARAMETERS + suffix, [])
    missing = [name for name in names if name not in stored]
    if missing:
        raise NetFormatError(f"the database lacks {len(missing)} of {len(names)} parameters: {', '.join(missing[:5])}")
    return read_blobs({name: stored[name] for name in names})


def _placeholder(name: str, known: Parameter | None) -> OperatorDef:
    """Make a fill with zeros for an input or output, of shape [0] if its shape is not known."""
    op = OperatorDef(type="ConstantFill", output=[name])
    op.arg.add(name="shape", ints=(0,) if known is None else known.shape)
    if known is not None and known.dtype.kind in "iub":
        op.arg.add(name="dtype", i=NUMBERS[known.dtype])
        op.arg.add(name="value", i=0)
    else:
        op.arg.add(name="value", f=0.0)
    return op


def _is_load(op: OperatorDef) -> bool:
    """Return whether an operator loads from the database that holds its net."""
    return op.type == "Load" and list(op.input) == [DB_READER]


def _without_loads(net: NetDef | None, made: Sequence[OperatorDef]) -> NetDef:
    """Return the net with other operators in the place of those that load."""
    net = NetDef() if net is None else net
    return with_operators(net, [*made, *(op for op in net.op if not _is_load(op))])


def _followed_by(first: InitNet, net: NetDef) -> InitNet:
    """Combine an init net with a second one that runs after it."""
    second = read_init_net(net, first.parameters)
    return dataclasses.replace(second, rest=first.rest + second.rest, findings=first.findings + second.findings)


def predictor_records(model: Model) -> Iterator[Record]:
    """Yield the records of a predictor database as Caffe2's predictor exporter writes them, so that Caffe2 loads it.

    They are sorted by key, so that a database that sorts its records receives them in order; the nets are the first.
    """
    parameters = model.init.parameters
    meta = MetaNetDef()
    meta.modelInfo.predictorType = "SINGLE_PREDICTOR"
    load = NetDef(name="global-init", external_input=[DB_READER], external_output=parameters)
    if parameters:
        load.op.add(type="Load", input=[DB_READER], output=parameters)
    load.op.extend(op.proto for op in model.init.rest)
    outputs = dict.fromkeys(model.predict_net.external_output)  # real Caffe2 lists objects, too
    blobs = [*model.inputs, *outputs]
    placeholders = NetDef(name="predict-init", external_input=blobs)
    # Caffe2 creates the predict net before any input is fed: its inputs must exist.
    placeholders.op.extend(_placeholder(name, model.init.placeholders.get(name)) for name in blobs)
    for key, net in ((PREDICT_INIT_NET, placeholders), (GLOBAL_INIT_NET, load), (PREDICT_NET, model.predict_net)):
        meta.nets.append(NetsMap(key=key, value=net))
    for key, names in ((PARAMETERS, parameters), (INPUTS, model.inputs), (OUTPUTS, outputs)):
        meta.blobs.append(BlobsMap(key=key, value=list(names)))
    yield text_record(META_NET_DEF, meta.SerializeToString())
    for name in sorted(parameters):
        yield from tensor_records(parameters[name])
