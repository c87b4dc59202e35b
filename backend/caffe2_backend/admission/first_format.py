"""Models of the first IR versions: attributes without a type, and no opset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import onnx

from caffe2_backend.admission.scopes import GraphScope, attributes_of

_VERSIONS: Final = (1, 2)  # of the IR: models name their opset since the third
_Type = onnx.AttributeProto.AttributeType
# The fields of a value, and the type that each is of. What an attribute without values is stays open.
_SINGLE: Final[dict[str, _Type]] = {
    "f": onnx.AttributeProto.FLOAT, "i": onnx.AttributeProto.INT, "s": onnx.AttributeProto.STRING,
    "t": onnx.AttributeProto.TENSOR, "g": onnx.AttributeProto.GRAPH,
}  # fmt: skip
_LISTS: Final[dict[str, _Type]] = {
    "floats": onnx.AttributeProto.FLOATS, "ints": onnx.AttributeProto.INTS, "strings": onnx.AttributeProto.STRINGS,
    "tensors": onnx.AttributeProto.TENSORS, "graphs": onnx.AttributeProto.GRAPHS,
}  # fmt: skip


def is_of_first_format(model: onnx.ModelProto, scopes: Sequence[GraphScope]) -> bool:
    """Whether :func:`complete` would change the model."""
    return model.ir_version in _VERSIONS and (
        not model.opset_import
        or any(_lacks_type(attribute) for scope in scopes for _, attribute in attributes_of(scope))
    )


def complete(model: onnx.ModelProto, scopes: Sequence[GraphScope]) -> None:
    """Give attributes the types of their values, and the model the opset that it is of, in place."""
    if not model.opset_import:
        model.opset_import.add(version=1)
    for scope in scopes:
        for _, attribute in attributes_of(scope):
            if _lacks_type(attribute):
                attribute.type = _type_of(attribute)


def _lacks_type(attribute: onnx.AttributeProto) -> bool:
    return attribute.type == onnx.AttributeProto.UNDEFINED and not attribute.ref_attr_name


def _type_of(attribute: onnx.AttributeProto) -> _Type:
    """Return the type of an attribute's value; undefined where it has none, or several."""
    found = [kind for field, kind in _SINGLE.items() if attribute.HasField(field)]
    found += [kind for field, kind in _LISTS.items() if getattr(attribute, field)]
    return found[0] if len(found) == 1 else onnx.AttributeProto.UNDEFINED
