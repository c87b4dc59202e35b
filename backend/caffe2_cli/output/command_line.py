"""The command line of this process, and what is to be typed in others."""

from __future__ import annotations

import shlex
import sys

from caffe2_bridge.storage import AnyPath


def command_line() -> str:
    """Return the command that the user typed, quoted for a shell."""
    return shlex.join(["caffe2-bridge", *sys.argv[1:]])


def typed_path(path: AnyPath) -> str:
    """Return a path as a shell and a command take it: quoted, and not like an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
