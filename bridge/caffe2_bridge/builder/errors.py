"""What is wrong with a net that is being built."""

from __future__ import annotations

from caffe2_bridge.diagnostics import BridgeError


class BuildError(BridgeError):
    """A net cannot be built as asked. Says which net, operator or blob, and why."""
