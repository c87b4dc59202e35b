"""Importers of operators of a user's own ONNX domains."""

from __future__ import annotations

from collections.abc import Callable

from caffe2_backend.lowering.family import Converter, Inference
from caffe2_backend.lowering.value import Value
from caffe2_backend.ops import BUILT_IN, INFERENCES, REGISTERED
from caffe2_bridge.diagnostics import OptionError
from caffe2_frontend.interop.guarded import guarded


def register_importer(*op_types: str, infer: Inference | None = None) -> Callable[[Converter], Converter]:
    """Return a decorator that registers the importer of ONNX operator types of one's own.

    An importer is a function from the node, as ``docs/own-operators.md`` describes it, to the value of its output, or
    to a tuple of those of several. Imports of this process use it from then on, also for nodes that call a function of
    the model of this type. A later registration of the same type replaces it.

    Args:
        op_types: the operator types, as ``domain::type``.
        infer: a function from what is known of the operands, a list of :class:`~caffe2_frontend.TensorInfo`, to that of
            the results. Without it they are known where the node calls a function of the model, or the model declares
            them; nodes that read others are refused.

    Raises:
        OptionError: this project has an importer of one of the types, it does not name a domain, or no type is named.
    """
    for op_type in op_types:
        domain, separator, name = op_type.partition("::")
        if not (domain and separator and name):
            raise OptionError(f"the operator type must be DOMAIN::TYPE, not {op_type!r}")
        if op_type in BUILT_IN:
            raise OptionError(f"{op_type} has an importer already")
    if not op_types:
        raise OptionError("name the operator types")

    def register(function: Converter) -> Converter:
        REGISTERED.update(dict.fromkeys(op_types, guarded(function, Value)))
        for op_type in op_types:
            INFERENCES.pop(op_type, None)
            if infer is not None:
                INFERENCES[op_type] = infer
        return function

    return register
