"""The command line of this process."""

from __future__ import annotations

import shlex
import sys


def command_line() -> str:
    """Return the command that the user typed, quoted for a shell."""
    return shlex.join(["caffe2-bridge", *sys.argv[1:]])
