"""The modules ``caffe2.python.onnx.frontend`` and ``.backend``: their functions, by this project's converters.

Caffe2's own import parts of ONNX that its releases of today do not have, and know opset 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.backend.base import Backend, Device, DeviceType

from caffe2_backend import Workspace, run_node, supports_device, to_netdef
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx


class Caffe2Frontend:
    """Converts nets of Caffe2 to ONNX."""

    @classmethod
    def caffe2_net_to_onnx_model(
        cls, predict_net: Any, init_net: Any = None, value_info: Mapping[str, tuple[int, Any]] | None = None
    ) -> onnx.ModelProto:
        """Convert a net; ``value_info``: ONNX's element type and the shape of its inputs, by name.

        Raises ConversionError.
        """
        inputs = {name: (_dtype(dtype), tuple(shape)) for name, (dtype, shape) in (value_info or {}).items()}
        return to_onnx(predict_net, init_net, inputs=inputs)

    @classmethod
    def caffe2_net_to_onnx_graph(cls, *args: Any, **options: Any) -> onnx.GraphProto:
        """Return the graph of :meth:`caffe2_net_to_onnx_model`."""
        return cls.caffe2_net_to_onnx_model(*args, **options).graph

    @classmethod
    def caffe2_init_net_to_initializer(cls, init_net: Any) -> list[onnx.TensorProto]:
        """Return what an init net makes, by name."""
        workspace = Workspace()
        workspace.run_net_once(init_net)
        names = sorted({name for op in init_net.op for name in op.output})
        return [onnx.numpy_helper.from_array(np.asarray(workspace.fetch(name)), name) for name in names]


class Caffe2Backend(Backend):
    """Converts ONNX models to nets of Caffe2."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> Any:
        """Convert a model, with the operators of ONNX that Caffe2 lacks, and feed its parameters to a new workspace.

        Returns Caffe2's own ``Caffe2Rep``: ``init_net``, ``predict_net``, ``workspace`` and ``run``.
        """
        from caffe2.python.onnx.backend_rep import Caffe2Rep  # type: ignore[import-not-found]  # of the user's copy
        from caffe2.python.onnx.workspace import Workspace as NamedWorkspace  # type: ignore[import-not-found]

        imported = _imported(model, device, foreign="carry")
        workspace = NamedWorkspace()
        workspace.RunNetOnce(imported.init_net)
        stored = {tensor.name for tensor in model.graph.initializer}
        inputs = [value for value in model.graph.input if value.name not in stored]
        for value in inputs:
            _feed_ones(workspace, value)
        init_net = NetDef(name=f"{model.graph.name}_init")
        return Caffe2Rep(init_net, _named(imported, model), workspace, [value.name for value in inputs])

    @classmethod
    def onnx_graph_to_caffe2_net(
        cls, model: onnx.ModelProto, device: str = "CPU", opset_version: int | None = None
    ) -> tuple[NetDef, NetDef]:
        """Convert a model of operators that Caffe2 has: its init net and its predict net. Raises ConversionError."""
        del opset_version
        imported = _imported(model, device, foreign="error")
        init_net = NetDef(name=f"{model.graph.name}_init")
        init_net.MergeFrom(NetDef(op=imported.init_net.op))
        return init_net, _named(imported, model)

    run_node = staticmethod(run_node)  # type: ignore[assignment]  # any further arguments
    supports_device = staticmethod(supports_device)


def _imported(model: onnx.ModelProto, device: str, *, foreign: Any) -> Model:
    place = Device(device)
    return to_netdef(
        model, foreign=foreign, device=f"cuda:{place.device_id}" if place.type == DeviceType.CUDA else None
    )


def _named(imported: Model, model: onnx.ModelProto) -> NetDef:
    """Return the predict net, under the name that Caffe2 gives it."""
    net = NetDef()
    net.CopyFrom(imported.predict_net)
    net.name = f"{model.graph.name}_predict"
    return net


def _feed_ones(workspace: Any, value: onnx.ValueInfoProto) -> None:
    """Feed an input of known sizes, as Caffe2 does: exporters of the prepared net look at its blob."""
    described = value.type.tensor_type
    shape = [dim.dim_value for dim in described.shape.dim]
    if described.elem_type and all(shape):
        workspace.FeedBlob(value.name, np.ones(shape, _dtype(described.elem_type)))


def _dtype(element_type: int) -> Any:
    return ir.DataType(element_type).numpy()


def frontend_names() -> dict[str, Any]:
    """Return the contents of ``caffe2.python.onnx.frontend``."""
    functions = ("caffe2_net_to_onnx_graph", "caffe2_net_to_onnx_model", "caffe2_init_net_to_initializer")
    return {"Caffe2Frontend": Caffe2Frontend, **{name: getattr(Caffe2Frontend, name) for name in functions}}


def backend_names() -> dict[str, Any]:
    """Return the contents of ``caffe2.python.onnx.backend``."""
    functions = ("prepare", "run_node", "run_model", "supports_device", "is_compatible", "onnx_graph_to_caffe2_net")
    return {"Caffe2Backend": Caffe2Backend, **{name: getattr(Caffe2Backend, name) for name in functions}}
