"""Tables of adapters: for each operator, what a node of an opset before a version becomes."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from caffe2_backend.opsets.old_node import OldNode
from caffe2_frontend.interop.version_rules import VersionRules

# Returns the value that replaces the node's first output, or changes the node, and returns None.
Adapter = Callable[[OldNode], ir.Value | None]


class Rules(VersionRules[Adapter]):
    """Adapters by operator type, each with the opset before which it applies, in the order of the opsets."""

    def __init__(self, *tables: Rules) -> None:
        super().__init__(latest_first=False)
        self.include(*tables)
