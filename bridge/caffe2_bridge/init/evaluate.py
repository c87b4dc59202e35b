"""Evaluate the operators of an init net that compute constants of constants, with NumPy.

Caffe2's ONNX importer makes such init nets: fills, and what the model computes of them alone. Results are those of
Caffe2 in the same element type; exp, tanh and the like, and sums of products, may differ in the last digit of a float.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from caffe2_bridge.diagnostics import Diagnostic, Location, NetFormatError
from caffe2_bridge.init.constant_math import MATH
from caffe2_bridge.init.constant_shapes import SHAPES
from caffe2_bridge.init.fill import FillError
from caffe2_bridge.init.init_net import FOLDED, InitNet, fold
from caffe2_bridge.init.operand import Evaluate
from caffe2_bridge.netdef.parameters import Array, Parameter
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption

EVALUATED: Final[Mapping[str, Evaluate]] = MappingProxyType({**SHAPES, **MATH})
_HINT: Final = "run the init net, and store its parameters with construct_init_net_from_params"


def evaluate_init_net(init: InitNet) -> tuple[dict[str, Parameter], list[Diagnostic]]:
    """Evaluate an init net as far as its operators compute constants of constants.

    Returns:
        The constants that are left at its end, by blob, and the diagnostics, in net order: those of ``init``,
        ``not-a-constant`` for each operator that has to be run, and ``bad-fill`` for one that Caffe2 would refuse.
        Operators that read a blob which another one has failed to write are not reported.
    """
    parameters = dict(init.parameters)
    findings = {finding.location.index: finding for finding in init.findings}
    failed: set[str] = set()
    for op in init.rest:
        if op.index in findings or not failed.isdisjoint(op.inputs):
            failed.update(op.outputs)
            continue
        location = Location("init", op.index, op.type, op.name)
        try:
            made = _evaluate(op, parameters, init.device)
        except (FillError, ArgumentError, NetFormatError, ValueError, IndexError) as error:
            findings[op.index] = Diagnostic("bad-fill", str(error), location)
            made = None
        if made is None:
            unknown = next((name for name in op.inputs if name not in parameters), None)
            reason = f"the operator reads {unknown!r}, which is not a constant"
            if unknown is None:
                reason = f"{op.type} is not among the operators that are evaluated without running Caffe2"
            findings.setdefault(op.index, Diagnostic("not-a-constant", reason, location, hint=_HINT))
            failed.update(op.outputs)
            continue
        failed.difference_update(made)
        parameters.update(made)
    return parameters, [findings[index] for index in sorted(findings, key=lambda index: index or 0)]


def _evaluate(
    op: OpView, parameters: Mapping[str, Parameter], net_device: DeviceOption | None
) -> dict[str, Parameter] | None:
    """Return the outputs of an operator; None if it cannot be evaluated."""
    if any(name not in parameters for name in op.inputs):
        return None
    inputs = tuple(parameters[name] for name in op.inputs)
    if op.type in FOLDED and len(op.outputs) == 1:
        made = fold(op, inputs, net_device)
        return {made.name: made}
    function = EVALUATED.get(op.type)
    if function is None or op.proto.domain:
        return None
    if any(parameter.scale is not None for parameter in inputs):
        raise FillError(f"the inputs of {op.type} must not be quantized tensors")
    results = function(op, [parameter.load() for parameter in inputs])
    device = op.proto.device_option if op.proto.HasField("device_option") else net_device
    if len(results) < len(op.outputs):
        raise FillError(f"the operator must have at most {len(results)} outputs, not {len(op.outputs)}")
    return {name: _constant(name, array, device) for name, array in zip(op.outputs, results, strict=False)}


def _constant(name: str, array: Array, device: DeviceOption | None) -> Parameter:
    return Parameter(name, array.dtype, array.shape, lambda: np.array(array), device=device)


def parameters_among(init: InitNet, made: Iterable[str], read: Iterable[str] = ()) -> list[str]:
    """Return the parameters among the blobs that an init net makes.

    If it declares external outputs, intermediate blobs, which its own operators read, are not parameters, unless it
    declares them or ``read``, the blobs that the predict net reads, holds them.
    """
    if not init.external_outputs:
        return list(made)
    intermediate = init.read.difference(init.external_outputs, read)
    return [name for name in made if name not in intermediate]
