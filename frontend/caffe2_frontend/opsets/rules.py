"""Tables of adapters: for each operator, what has to change for targets before a version of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from caffe2_frontend.interop.version_rules import VersionRules
from caffe2_frontend.opsets.rewriter import Rewriter

# Returns the values that replace the node's outputs, or changes the node so that it is as before the version, and
# returns None.
Adapter = Callable[[Rewriter], Sequence[ir.Value] | ir.Value | None]


class Rules(VersionRules[Adapter]):
    """Adapters by operator type, each with the version before which it applies; those of the latest versions first."""

    def __init__(self, *tables: Rules) -> None:
        super().__init__(latest_first=True)
        self.include(*tables)
