"""What a predictor consists of: its net, the roles of its blobs, and the nets that fill them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from caffe2_backend.runtime.calls.blob_workspace import Workspace, as_net
from caffe2_bridge.diagnostics import BuildError
from caffe2_bridge.files.predictor_db import (
    DB_READER,
    GLOBAL_INIT_NET,
    INPUTS,
    OUTPUTS,
    PARAMETERS,
    PREDICT_INIT_NET,
    PREDICT_NET,
)
from caffe2_bridge.netdef.construct import make_operator
from caffe2_bridge.netdef.parameters import Int8Tensor
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.proto.metanet_pb2 import BlobsMap, MetaNetDef, NetsMap
from caffe2_compat import workspace

TRAIN_INIT_PLAN = "TRAIN_INIT_PLAN_TYPE"
TRAIN_PLAN = "TRAIN_PLAN_TYPE"
_MODEL_ID = "model_id"


class _Fields(NamedTuple):
    predict_net: NetDef
    parameters: list[str]
    inputs: list[str]
    outputs: list[str]
    shapes: Mapping[str, Sequence[int]]
    name: str
    extra_init_net: Any
    global_init_net: Any
    net_type: str | None
    num_workers: int | None
    trainer_prefix: str | None


class PredictorExportMeta(_Fields):
    """What Caffe2's predictor exporter saves.

    Args:
        predict_net: the net to run: a NetDef, its bytes, or an object with ``Proto()``.
        parameters: the blobs to store.
        inputs: the blobs to feed.
        outputs: the blobs to fetch.
        shapes: the shapes of inputs and outputs; those not named are taken from the workspace.
        name: the name of the predictor, where a database holds several.
        extra_init_net: a net to run after inputs and outputs are filled.
        global_init_net: a net to run after the parameters are loaded.
        net_type: the type of the net, such as ``dag``.
        num_workers: the number of threads of the net.
        trainer_prefix: a prefix of the keys of training plans.

    Raises:
        BuildError: an input is listed twice, or a parameter is an input or an output.
        NetFormatError: ``predict_net`` is not a net.
    """

    __slots__ = ()

    def __new__(
        cls,
        predict_net: Any,
        parameters: Iterable[object],
        inputs: Iterable[object],
        outputs: Iterable[object],
        shapes: Mapping[Any, Sequence[int]] | None = None,
        name: str = "",
        extra_init_net: Any = None,
        global_init_net: Any = None,
        net_type: str | None = None,
        num_workers: int | None = None,
        trainer_prefix: str | None = None,
    ) -> Self:
        """Check the roles of the blobs."""
        fed, fetched, stored = list(map(str, inputs)), list(map(str, outputs)), list(map(str, parameters))
        if len(set(fed)) < len(fed):
            raise BuildError(f"the inputs of a predictor must be unique: {', '.join(fed)}")
        for role, names in (("inputs", fed), ("outputs", fetched)):
            both = sorted(set(stored).intersection(names))
            if both:
                raise BuildError(f"parameters and {role} of a predictor must be disjoint, but share {', '.join(both)}")
        by_name = {str(blob): shape for blob, shape in (shapes or {}).items()}
        return super().__new__(
            cls, as_net(predict_net), stored, fed, fetched, by_name, name, extra_init_net, global_init_net, net_type,
            num_workers, trainer_prefix,
        )  # fmt: skip

    def inputs_name(self) -> str:
        """Return the key of the list of inputs."""
        return self._key(INPUTS)

    def outputs_name(self) -> str:
        """Return the key of the list of outputs."""
        return self._key(OUTPUTS)

    def parameters_name(self) -> str:
        """Return the key of the list of parameters."""
        return self._key(PARAMETERS)

    def global_init_name(self) -> str:
        """Return the key of the net that loads the parameters."""
        return self._key(GLOBAL_INIT_NET)

    def predict_init_name(self) -> str:
        """Return the key of the net that fills inputs and outputs."""
        return self._key(PREDICT_INIT_NET)

    def predict_net_name(self) -> str:
        """Return the key of the predict net."""
        return self._key(PREDICT_NET)

    def train_init_plan_name(self) -> str:
        """Return the key of the plan that starts the training."""
        return self._training_key(TRAIN_INIT_PLAN)

    def train_plan_name(self) -> str:
        """Return the key of the training plan."""
        return self._training_key(TRAIN_PLAN)

    def _key(self, kind: str) -> str:
        return f"{kind}_{self.name}" if self.name else kind

    def _training_key(self, kind: str) -> str:
        return f"{self.trainer_prefix}_{self._key(kind)}" if self.trainer_prefix else self._key(kind)


def get_meta_net_def(
    predictor_export_meta: PredictorExportMeta, ws: Workspace | None = None, db_type: str | None = None
) -> MetaNetDef:
    """Return the message that a predictor database stores: nets by key, and blobs by role.

    Args:
        predictor_export_meta: the predictor.
        ws: the workspace with the inputs and outputs whose shapes are not given; None for the current one.
        db_type: ignored.

    Raises NoBlobError if such a blob does not exist there.
    """
    del db_type
    meta = predictor_export_meta
    nets = (
        (meta.predict_init_name(), _predict_init_net(meta, workspace.current() if ws is None else ws)),
        (meta.global_init_name(), _global_init_net(meta)),
        (meta.predict_net_name(), _predict_net(meta)),
    )
    roles = (
        (meta.parameters_name(), meta.parameters),
        (meta.inputs_name(), meta.inputs),
        (meta.outputs_name(), meta.outputs),
    )
    return MetaNetDef(
        nets=[NetsMap(key=key, value=net) for key, net in nets],
        blobs=[BlobsMap(key=key, value=names) for key, names in roles],
    )


def set_model_info(meta_net_def: MetaNetDef, project_str: str, model_class_str: str, version: str) -> None:
    """Set the project, class and version of a model."""
    meta_net_def.modelInfo.project = project_str
    meta_net_def.modelInfo.modelClass = model_class_str
    meta_net_def.modelInfo.version = version


def _predict_net(meta: PredictorExportMeta) -> NetDef:
    given = meta.predict_net
    net = NetDef(
        name=given.name or "predict",
        op=given.op,
        partition_info=given.partition_info,
        external_input=[*meta.inputs, *meta.parameters],
        external_output=meta.outputs,
        arg=given.arg,
    )
    if meta.net_type is not None:
        net.type = meta.net_type
    if meta.num_workers is not None:
        net.num_workers = meta.num_workers
    return net


def _predict_init_net(meta: PredictorExportMeta, ws: Workspace) -> NetDef:
    """Return the net that fills inputs and outputs with zeros: Caffe2 creates the predict net before they are fed."""
    blobs = [*meta.inputs, *meta.outputs]
    net = NetDef(name="predict-init", external_input=blobs)
    for blob in blobs:
        shape = meta.shapes.get(blob)
        if shape is None:
            value = ws.fetch(blob, on_device=True)
            data = value.data if isinstance(value, Int8Tensor) else value
            shape = () if isinstance(data, bytes) else data.shape
        net.op.append(make_operator("ConstantFill", (), (blob,), {"shape": list(map(int, shape)), "value": 0.0}))
    _append(net, meta.extra_init_net)
    _copy_model_id(meta, net)
    return net


def _global_init_net(meta: PredictorExportMeta) -> NetDef:
    net = NetDef(name="global-init", external_input=[DB_READER], external_output=meta.parameters)
    if meta.parameters:
        net.op.append(make_operator("Load", (DB_READER,), meta.parameters, {}))
    _append(net, meta.global_init_net)
    _copy_model_id(meta, net)
    return net


def _append(net: NetDef, other: Any) -> None:
    """Append the operators of another net, and the external inputs and outputs that the net does not have."""
    if other is None:
        return
    added = as_net(other)
    written = {name for op in net.op for name in op.output}
    net.external_input.extend(
        name for name in added.external_input if name not in written and name not in net.external_input
    )
    net.external_output.extend(name for name in added.external_output if name not in net.external_output)
    net.op.extend(added.op)


def _copy_model_id(meta: PredictorExportMeta, net: NetDef) -> None:
    """Give a net the argument ``model_id`` of the predict net, if that has one."""
    found = [arg for arg in meta.predict_net.arg if arg.name == _MODEL_ID]
    if found:
        kept = [arg for arg in net.arg if arg.name != _MODEL_ID]
        del net.arg[:]
        net.arg.extend([*kept, found[0]])
