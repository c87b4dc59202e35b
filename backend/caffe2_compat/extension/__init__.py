"""The module ``caffe2.python.caffe2_pybind11_state``, which Caffe2 implements in C++, by concerns."""

from __future__ import annotations

from typing import Any

from caffe2_compat.extension import (
    build,
    costs,
    databases,
    flags,
    gradients,
    inference,
    operator_schemas,
    python_operators,
    random_inputs,
    transforms,
    workspaces,
)
from caffe2_compat.extension.left_out import left_out_names
from caffe2_compat.extension.runs import nets, observers
from caffe2_compat.extension.values import blobs, tensors

__all__ = ["extension_names"]

_MODULES = (
    blobs,
    build,
    costs,
    databases,
    flags,
    gradients,
    inference,
    nets,
    observers,
    operator_schemas,
    python_operators,
    random_inputs,
    tensors,
    transforms,
    workspaces,
)


def extension_names() -> dict[str, Any]:
    """Return everything that the module defines, by name."""
    python_operators.install()
    names = left_out_names()
    for module in _MODULES:
        names.update({name: getattr(module, name) for name in module.__all__})
    return names
