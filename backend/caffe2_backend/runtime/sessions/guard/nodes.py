"""Nodes that check an operand when a model runs, so that onnxruntime fails where its kernels would end the process."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import onnx

from caffe2_backend.runtime.memory import lack_in_session
from caffe2_backend.runtime.sessions.failure_text import failure_text
from caffe2_bridge.diagnostics import RunError
from caffe2_frontend.interop.native_limits import Need

PREFIX: Final = "caffe2_bridge.check"  # of the names of what is added
_SLICE_BY_OPERANDS: Final = 10  # the opset from which on a Slice has them; attributes before
_NAMED: Final = re.compile(rf"Name:'[^']*{re.escape(PREFIX)}[._0-9]*: (.*?)' Status Message", re.DOTALL)


def checked(operand: str, need: Need, name: str, label: str, opset: int) -> tuple[list[onnx.NodeProto], str]:
    """Return nodes that pass an operand on if it is what is needed, else fail, and the name of what they pass on.

    The condition decides by an index into a list of one element: 0 is in its range, and 1 is not. What is read there,
    0, is added to the shape, so that the nodes are not removed as unused. Only dims are computed.

    Args:
        operand: the name of the value.
        need: what it must be.
        name: a prefix of the names of new values that no others have.
        label: the node that reads the operand, for the message.
        opset: the version of ONNX's operators where the nodes are.
    """
    emit = _Emitter(name, f"input {need.operand} of {label} {need.text}", opset)
    shape = emit("Shape", operand)
    index = emit("Cast", _is_bad(emit, operand, shape, need), to=onnx.TensorProto.INT64)
    zero = emit("Gather", emit.constant([0]), index)
    return emit.nodes, emit("Reshape", operand, emit("Add", shape, zero))


def failure_of(error: Exception) -> RunError:
    """Return the error of a run: that of onnxruntime, or what a check here found."""
    if isinstance(error, UnicodeEncodeError):
        return RunError("onnxruntime takes UTF-8 text only, and a string is not")
    found = _NAMED.search(str(error))
    if found:
        return RunError(f"{found[1]}: onnxruntime would end the process")
    return lack_in_session(str(error)) or RunError(f"onnxruntime: {failure_text(str(error))}")


def _is_bad(emit: _Emitter, operand: str, shape: str, need: Need) -> str:
    """Return the name of a bool []: whether an operand is not what is needed."""
    if need.is_divisor:
        number = emit("Cast", emit("Reshape", operand, emit.constant([])), to=onnx.TensorProto.INT64)
        return emit("Less", number, emit.constant(1))
    if need.rank is not None:
        return emit("Not", emit("Equal", emit("Size", shape), emit.constant(need.rank)))
    if need.has_dims or need.axes is None:
        least = emit("Size", shape if need.has_dims else operand)
    else:
        least = emit("ReduceMin", _sizes(emit, shape, need.axes), keepdims=0)
    return emit("Not", emit("Cast", least, to=onnx.TensorProto.BOOL))


def _sizes(emit: _Emitter, shape: str, axes: Sequence[int]) -> str:
    """Return the name of the sizes along axes, of which a range may have more than there are."""
    if isinstance(axes, range) and emit.opset < _SLICE_BY_OPERANDS:
        return emit("Slice", shape, starts=[axes.start], ends=[axes.stop])
    if isinstance(axes, range):
        return emit("Slice", shape, emit.constant([axes.start]), emit.constant([axes.stop]))
    return emit("Gather", shape, emit.constant(axes))


class _Emitter:
    """Collects nodes of one output each."""

    def __init__(self, prefix: str, text: str, opset: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.opset = opset
        self._prefix, self._text = prefix, text

    def __call__(self, op_type: str, *inputs: str, **attributes: int | list[int]) -> str:
        """Add a node whose attributes are integers or lists of them; return its output."""
        return self._add(onnx.NodeProto(op_type=op_type, input=inputs), attributes)

    def constant(self, value: int | Sequence[int]) -> str:
        """Add a constant of int64."""
        node = onnx.NodeProto(op_type="Constant")
        attribute = node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR)
        attribute.t.CopyFrom(onnx.numpy_helper.from_array(np.asarray(value, np.int64)))
        return self._add(node, {})

    def _add(self, node: onnx.NodeProto, attributes: Mapping[str, int | list[int]]) -> str:
        for key, value in attributes.items():
            if isinstance(value, int):
                node.attribute.add(name=key, type=onnx.AttributeProto.INT, i=value)
            else:
                node.attribute.add(name=key, type=onnx.AttributeProto.INTS, ints=value)
        output = f"{self._prefix}.{len(self.nodes)}"
        node.name = f"{output}: {self._text}"  # onnxruntime names the node in its error
        node.output.append(output)
        self.nodes.append(node)
        return output
