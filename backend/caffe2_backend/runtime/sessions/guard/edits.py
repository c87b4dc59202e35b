"""Change a model so that onnxruntime survives its nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import onnx
from google.protobuf.message import EncodeError

from caffe2_backend.admission.scopes import GraphScope, scopes_of
from caffe2_backend.runtime.sessions.guard.nodes import PREFIX, checked
from caffe2_bridge.diagnostics import RunError
from caffe2_frontend.interop.domains import STANDARD_DOMAINS
from caffe2_frontend.interop.native_limits import Need

_OPSET = 17  # for functions and models that import no operators of ONNX


@dataclass(frozen=True)
class Edit:
    """A change to a node.

    Attributes:
        scope: the index of the graph, function or body.
        node: the index of the node there.
        label: the node in messages.
        need: what is checked of one of its operands; None to cut off operands at the end that are left out.
    """

    scope: int
    node: int
    label: str
    need: Need | None = None


def edited(model: onnx.ModelProto, edits: Sequence[Edit]) -> bytes:
    """Return the serialized model with the changes; ``model`` is changed too.

    Raises RunError for a model too large for a message.
    """
    scopes = scopes_of(model)
    prefix = PREFIX
    while any(name.startswith(prefix) for scope in scopes for node in scope.nodes for name in node.output):
        prefix += "_"  # a model that was saved with checks
    by_scope: dict[int, list[Edit]] = defaultdict(list)
    for edit in edits:
        by_scope[edit.scope].append(edit)
    for index in sorted(by_scope, reverse=True):  # bodies first: to add nodes is to copy those that there are
        root = (scopes[index].root or scopes[index]).proto
        opset = _import_standard(root if isinstance(root, onnx.FunctionProto) else model)
        _apply(scopes[index], by_scope[index], prefix, opset)
    try:
        return bytes(model.SerializeToString())
    except (ValueError, EncodeError) as error:
        raise RunError(f"the model cannot be guarded: {error}") from None


def _apply(scope: GraphScope, edits: Sequence[Edit], prefix: str, opset: int) -> None:
    added: dict[int, list[onnx.NodeProto]] = defaultdict(list)
    for edit in edits:
        node = scope.nodes[edit.node]
        if edit.need is None:
            while node.input and not node.input[-1]:
                del node.input[-1]
            continue
        operand = edit.need.operand
        name = f"{prefix}.{edit.scope}.{edit.node}.{operand}.{len(added[edit.node])}"
        nodes, node.input[operand] = checked(node.input[operand], edit.need, name, edit.label, opset)
        added[edit.node] += nodes
    whole = onnx.GraphProto()
    for index, node in enumerate(scope.nodes):
        whole.node.extend([*added.get(index, ()), node])
    del scope.proto.node[:]
    scope.proto.node.extend(whole.node)


def _import_standard(owner: onnx.ModelProto | onnx.FunctionProto) -> int:
    """Return the version of ONNX's operators that an owner of nodes imports, which it does from now on."""
    versions = [entry.version for entry in owner.opset_import if entry.domain in STANDARD_DOMAINS]
    if not versions:
        owner.opset_import.add(domain="", version=_OPSET)
    return versions[0] if versions else _OPSET
