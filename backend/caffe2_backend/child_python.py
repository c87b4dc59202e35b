"""Python processes that this project starts: the current folder is not on their module search path.

Python puts the current folder first where it is started with ``-c`` or ``-m``, so that a json.py in a folder of
downloaded models would run. PYTHONPATH holds as in this process: whoever sets it chooses what is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import caffe2_backend
import caffe2_bridge
import caffe2_frontend
from caffe2_bridge.environment import environment_variable

SAFE_PATH: Final = "PYTHONSAFEPATH"


def isolated_python(program: str, *arguments: str) -> list[str]:
    """Return the command that runs the code ``program`` in this Python, which finds the packages of this project.

    Their folders come last on the path: they count only where this process found the packages in the current folder,
    or in one that it added to the path itself.
    """
    packages = (caffe2_backend, caffe2_frontend, caffe2_bridge)
    folders = list(dict.fromkeys(str(Path(str(package.__file__)).parents[1].resolve()) for package in packages))
    # What this process does not read, the other does not either: PYTHONPATH, and the packages of the user.
    flags = [*["-E"] * sys.flags.ignore_environment, *["-s"] * sys.flags.no_user_site]
    return [sys.executable, "-P", *flags, "-c", f"import sys; sys.path += {folders!r}\n{program}", *arguments]


@contextmanager
def isolated_children() -> Iterator[None]:
    """Isolate the Python processes that others start meanwhile, such as those of multiprocessing."""
    with environment_variable(SAFE_PATH, "1"):
        yield
