"""The modules ``caffe2.proto.*``, of this project's messages."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from caffe2_bridge.proto import caffe2_pb2, metanet_pb2

_Field = descriptor_pb2.FieldDescriptorProto

# Messages that only Caffe2's Python uses: per file and message its fields, as in "NAME:TYPE" with * if repeated. The
# numbers count from 1; =N sets one.
_FILES: Final[dict[str, dict[str, str]]] = {
    "hsm": {
        "NodeProto": "children:NodeProto* word_ids:int32* offset:int32 name:string scores:float*",
        "TreeProto": "root_node:NodeProto",
        "HierarchyProto": "size:int32 paths:PathProto*",
        "PathProto": "word_id:int32 path_nodes:PathNodeProto*",
        "PathNodeProto": "index:int32 length:int32 target:int32",
    },
    "prof_dag": {
        "TwoNumberStatsProto": "mean:float stddev:float count:int64",
        "BlobProfile": "name:string bytes_used:TwoNumberStatsProto=3",
        "ProfDAGProto": "name:string mean:float stddev:float execution_time:TwoNumberStatsProto "
        "output_profile:BlobProfile* extra_info:string*=7",
        "ProfDAGProtos": "stats:ProfDAGProto* net_name:string ops_stats:OpProfile*",
        "OpProfile": "idx:string net_name:string type:string exec_time_secs:float",
    },
    "caffe2_legacy": {
        "CaffeDatum": "channels:int32 height:int32 width:int32 data:bytes label:int32 float_data:float* encoded:bool",
    },
    "predictor_consts": {
        "PredictorConsts": "META_NET_DEF:string PREDICTOR_DBREADER:string PARAMETERS_BLOB_TYPE:string "
        "INPUTS_BLOB_TYPE:string OUTPUTS_BLOB_TYPE:string GLOBAL_INIT_NET_TYPE:string PREDICT_INIT_NET_TYPE:string "
        "PREDICT_NET_TYPE:string SINGLE_PREDICTOR:string MULTI_PREDICTOR:string TRAIN_INIT_PLAN_TYPE:string "
        "TRAIN_PLAN_TYPE:string SHAPE_INFO_BLOB:string DEFERRED_BLOB_READER:string",
    },
}
# Defaults of the constants' fields that are not their names.
_DEFAULTS: Final = {
    "META_NET_DEF": "!!META_NET_DEF",
    "PREDICTOR_DBREADER": "!!PREDICTOR_DBREADER",
    "DEFERRED_BLOB_READER": "__DEFERRED_BLOB_READER__",
}
_LEGACY_PADDING: Final = {"NOTSET": 0, "VALID": 1, "SAME": 2, "CAFFE_LEGACY_POOLING": 3}
_SHORT_DEVICES: Final = ("CPU", "CUDA", "MKLDNN", "OPENGL", "OPENCL", "IDEEP", "HIP", "COMPILE_TIME_MAX_DEVICE_TYPES")


def proto_modules() -> dict[str, dict[str, Any]]:
    """Return the contents of the modules ``caffe2.proto.*`` by the last part of their names."""
    modules = {f"{name}_pb2": _messages(name) for name in _FILES}
    modules["caffe2_legacy_pb2"] |= _LEGACY_PADDING
    short = {name: getattr(caffe2_pb2, f"PROTO_{name}") for name in _SHORT_DEVICES}
    modules["caffe2_pb2"] = {**_public(caffe2_pb2), **short}
    modules["metanet_pb2"] = _public(metanet_pb2)
    modules["torch_pb2"] = {}
    return modules


def _public(module: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if not name.startswith("__")}


@cache
def _messages(name: str) -> dict[str, Any]:
    """Return the message classes of a file, made from descriptors."""
    package = "caffe2_bridge.proto.python"
    file = descriptor_pb2.FileDescriptorProto(name=f"caffe2_bridge/proto/python/{name}.proto", package=package)
    file.syntax = "proto2"
    for message, fields in _FILES[name].items():
        described = file.message_type.add(name=message)
        for index, text in enumerate(fields.split()):
            _add_field(described, text, index + 1, package, constants=name == "predictor_consts")
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        message: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{message}"))
        for message in _FILES[name]
    }


def _add_field(message: Any, text: str, number: int, package: str, *, constants: bool) -> None:
    declaration, _, explicit = text.partition("=")
    name, _, type_name = declaration.partition(":")
    field = message.field.add(name=name, number=int(explicit or number))
    field.label = _Field.LABEL_REPEATED if type_name.endswith("*") else _Field.LABEL_OPTIONAL
    type_name = type_name.rstrip("*")
    if f"TYPE_{type_name.upper()}" in _Field.Type.keys():  # noqa: SIM118 - protobuf's wrapper of an enum is not a mapping
        field.type = _Field.Type.Value(f"TYPE_{type_name.upper()}")
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{package}.{type_name}"
    if constants:
        field.default_value = _DEFAULTS.get(name, name)
