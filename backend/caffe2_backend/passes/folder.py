"""onnxscript's constant folder, with an inference that remembers nodes that are alike."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir
from onnxscript.optimizer._constant_folding import FoldConstantsPass

from caffe2_bridge.bounds import MAX_UNROLLED
from caffe2_frontend.interop.constants import string_tensor
from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.inference.node_inference import infer_if_possible
from caffe2_frontend.interop.operators import WINDOWED


class Folder(FoldConstantsPass):
    """The folder, which infers the types and shapes of each node's outputs from operands that it has folded.

    The class is not part of onnxscript's interface, which offers no other way to replace the inference. A version that
    names its inference otherwise folds the same in more time.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._described: dict[int, tuple[onnx.TypeProto, ir.TypeProtocol | None, ir.Shape | None]] = {}

    def process_node(self, node: ir.Node, *args: Any, **options: Any) -> Any:
        """Return what replaces a node, None if it stays."""
        return None if _is_left(node) else super().process_node(node, *args, **options)

    def _do_inference(self, node: ir.Node) -> None:
        """Complete the types and shapes of a node's outputs.

        Constants determine the shape of a result whatever the file says: a result that is said to be small may be so
        large that it must not be computed.
        """
        version = self._opset_imports.get(node.domain)
        if version is None or any(value is not None and value.type is None for value in node.inputs):
            return
        is_determined = all(value is None or value.const_value is not None for value in node.inputs)
        for value, known in zip(node.outputs, infer_if_possible(node, version), strict=False):
            if known is None:
                continue
            kind, shape = self._read(known)
            claimed = None if is_determined and shape is not None else value.shape
            if claimed is not None and shape is not None and len(claimed) != len(shape):
                return
            value.type, value.shape = kind, _merged(claimed, shape)

    def _prepare_folded_tensor(self, node: ir.Node, output_name: str, output_array: Any) -> Any:
        """Return the tensor of a result, None if it is too large; of strings one with their size, which serializes."""
        tensor = super()._prepare_folded_tensor(node, output_name, output_array)
        return string_tensor(tensor.numpy()) if tensor is not None and tensor.dtype == ir.DataType.STRING else tensor

    def _read(self, known: onnx.TypeProto) -> tuple[ir.TypeProtocol | None, ir.Shape | None]:
        """Return a type and its shape. The values of the model share them."""
        found = self._described.get(id(known))
        if found is None:
            kind = ir.serde.deserialize_type_proto_for_type(known)
            shape = ir.serde.deserialize_type_proto_for_shape(known)
            found = self._described[id(known)] = (known, kind, shape)
        return found[1:]


def _is_left(node: ir.Node) -> bool:
    """Whether the folder must not compute a node.

    The sizes of values may be beyond int64, and are left to the pass. Splits into very many parts it would name one by
    one. A result that nothing reads has no name, which an initializer needs. How long ONNX's reference evaluator takes
    for windows depends on attributes, and not on the size of the result.
    """
    if not any(value.name for value in node.outputs):
        return True
    if not is_standard(node):
        return False
    return node.op_type == "Size" or node.op_type in WINDOWED or (node.op_type == "SplitToSequence" and _is_fine(node))


def _is_fine(split: ir.Node) -> bool:
    """Whether a SplitToSequence has more parts than nodes may have outputs here, as far as that is known."""
    x, sizes = (*split.inputs, None, None)[:2]
    if x is None or x.shape is None or sizes is None:
        return False
    if sizes.shape is not None and len(sizes.shape) == 1:
        parts: int | ir.SymbolicDim | None = sizes.shape[0]
        size = 1
    else:
        axis, known = split.attributes.get_int("axis", 0), ir.convenience.get_const_tensor(sizes)
        parts = x.shape[axis] if -len(x.shape) <= axis < len(x.shape) else None
        size = 1 if known is None or known.size != 1 else max(int(known.numpy().item()), 1)
    return isinstance(parts, int) and parts > size * MAX_UNROLLED


def _merged(ours: ir.Shape | None, inferred: ir.Shape | None) -> ir.Shape | None:
    """Return the dims that are known of a value, and those that are inferred where nothing is known; a number wins."""
    if ours is None or inferred is None:
        return inferred if ours is None else ours
    pairs = list(zip(ours.dims, inferred.dims, strict=True))
    if all(mine == other or isinstance(mine, int) for mine, other in pairs):
        return ours
    return ir.Shape([_known(mine, other) for mine, other in pairs])


def _known(mine: int | ir.SymbolicDim, other: int | ir.SymbolicDim) -> int | ir.SymbolicDim:
    if isinstance(mine, int):
        return mine
    return other if isinstance(other, int) or mine.value is None else mine
