"""Which nodes of an ONNX graph the CUDA provider of onnxruntime has a kernel for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

import onnx
import onnx_ir as ir

from caffe2_frontend.interop.operators import RECURRENT

_ONNX_NAMES: Final = {"FLOAT": "float", "DOUBLE": "double"}
# Without a kernel on either device: onnxruntime runs their definition in other operators, which have CUDA kernels.
_DEFINED: Final = frozenset({"Mish"})


@dataclass(frozen=True)
class Kernel:
    """A kernel: the versions of the operator that it is for (``last`` is None for the latest), types by parameter."""

    first: int
    last: int | None
    types: Mapping[str, frozenset[str]]

    def is_for(self, version: int) -> bool:
        """Whether the kernel is for an operator that was last changed in this version of its operator set."""
        return version == self.first or (self.last is not None and self.first < version <= self.last)


def missing_kernel(node: ir.Node, opsets: Mapping[str, int]) -> str:
    """Return why the CUDA provider does not run a node, as the end of a sentence; empty if it does.

    A type that is not known is taken for one that it has.

    Args:
        node: the node; its bodies are not looked at.
        opsets: the versions of the operator sets of the model.
    """
    domain = "" if node.domain == "ai.onnx" else node.domain
    name = f"{domain}::{node.op_type}" if domain else node.op_type
    try:
        schema = onnx.defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
    except onnx.defs.SchemaError:  # an operator of onnxruntime's own, of which every version is the first
        return "" if name in _table() else f"{name} has no CUDA kernel"
    kernels = [kernel for kernel in _table().get(name, ()) if kernel.is_for(schema.since_version)]
    if name in _DEFINED:
        return ""
    if not kernels:
        return f"{name} has no CUDA kernel"
    types = dict(_types(node, schema))
    if not any(all(found in kernel.types.get(key, {found}) for key, found in types.items()) for kernel in kernels):
        texts = ", ".join(sorted(set(types.values())))
        return f"{name} has no CUDA kernel for {texts}"
    return _SPECIAL[node.op_type](node) if node.op_type in _SPECIAL else ""


@cache
def _table() -> Mapping[str, Sequence[Kernel]]:
    kernels: dict[str, list[Kernel]] = defaultdict(list)
    for line in files(__package__).joinpath("cuda_kernels.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        name, versions, *types = line.split()
        first, _, last = versions.partition("-")
        pairs = (text.partition("=") for text in types)
        each = {key: frozenset(values.split(",")) for key, _, values in pairs}
        kernels[name].append(Kernel(int(first), int(last) if last else None, each))
    return kernels


def _types(node: ir.Node, schema: onnx.defs.OpSchema) -> Iterator[tuple[str, str]]:
    """Yield the element types of a node's operands, by the type parameters of its operator, where they are known."""
    for values, formals in ((node.inputs, schema.inputs), (node.outputs, schema.outputs)):
        for position, value in enumerate(values):
            formal = formals[min(position, len(formals) - 1)] if formals else None
            if formal is None or value is None or value.dtype is None or not formal.is_homogeneous:
                continue
            yield formal.type_str, _ONNX_NAMES.get(value.dtype.name, value.dtype.name.lower())


# What the provider leaves to the CPU although it has a kernel: cuDNN and its own kernels take no other attributes.


def _text(node: ir.Node, name: str, default: str = "") -> str:
    attribute = node.attributes.get(name)
    return attribute.as_string() if attribute is not None else default


def _number(node: ir.Node, name: str, default: int = 0) -> int:
    attribute = node.attributes.get(name)
    return attribute.as_int() if attribute is not None else default


def _recurrent(node: ir.Node) -> str:
    text = _activations(node)
    if text:
        return f"{node.op_type} has no CUDA kernel with {text}"
    if node.op_type == "GRU" and not _number(node, "linear_before_reset"):
        return "GRU has no CUDA kernel that resets before the product (linear_before_reset=0)"
    refused = [name for name in ("clip", "layout", "input_forget") if name in node.attributes and _is_set(node, name)]
    if node.op_type == "LSTM" and len(node.inputs) > 7 and node.inputs[7] is not None:
        refused.append("peepholes")
    return f"{node.op_type} has no CUDA kernel with {', '.join(refused)}" if refused else ""


def _is_set(node: ir.Node, name: str) -> bool:
    return name == "clip" or bool(_number(node, name))


def _activations(node: ir.Node) -> str:
    """Return the activations, where they are others than cuDNN's."""
    given = node.attributes.get("activations")
    functions = [text.lower() for text in given.as_strings()] if given is not None else []
    usual = [name.lower() for name in RECURRENT[node.op_type].activations]
    good = all(functions[i : i + len(usual)] == usual for i in range(0, len(functions), len(usual)))
    return "" if good else f"the activations {', '.join(functions)}"


def _transposed(node: ir.Node) -> str:
    attribute = node.attributes.get("pads")
    pads = list(attribute.as_ints()) if attribute is not None else []
    half = len(pads) // 2
    if pads[:half] != pads[half:]:
        return "ConvTranspose has no CUDA kernel with pads that differ between the ends of an axis"
    return "" if _text(node, "auto_pad", "NOTSET") == "NOTSET" else "ConvTranspose has no CUDA kernel with auto_pad"


def _last_index(node: ir.Node) -> str:
    return f"{node.op_type} has no CUDA kernel with select_last_index" if _number(node, "select_last_index") else ""


_SPECIAL: Final[Mapping[str, Callable[[ir.Node], str]]] = {
    **dict.fromkeys(RECURRENT, _recurrent),
    "ConvTranspose": _transposed,
    "ArgMax": _last_index,
    "ArgMin": _last_index,
}
