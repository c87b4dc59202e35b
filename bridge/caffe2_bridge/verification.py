"""Self-checks of this project's own code, which its tests switch on."""

from __future__ import annotations

import os
from typing import Final

# Set (to anything but the empty string): passes are held to their kind, and diagnostics to the codes of the table.
VARIABLE: Final = "CAFFE2_BRIDGE_VERIFY"


def is_verifying() -> bool:
    """Whether the self-checks are switched on."""
    return bool(os.environ.get(VARIABLE))
