"""Where findings become an error."""

from __future__ import annotations

from typing import ClassVar

from caffe2_bridge import passes


class RefuseFindings(passes.RefuseFindings):
    """Not before the net is a graph: until then findings are still being gathered."""

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})
