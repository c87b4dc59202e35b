"""Python operators: Python, PythonDLPack and their gradients, functions of the program that runs.

The functions are registered in the process by tokens, which the operators name. A program that needs them installs what
calls them, ``caffe2_compat``: nets alone, which may come from anywhere, do not run code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from caffe2_backend.runtime.host.family import HostFamily, HostOp

family = HostFamily("python operators")
Caller: TypeAlias = Callable[[HostOp], None]
_callers: Final[list[Caller]] = []


def install_caller(caller: Caller) -> None:
    """Set what runs Python operators."""
    _callers[:] = [caller]


@family.runs("Python", "PythonGradient", "PythonDLPack", "PythonDLPackGradient")
def run_python(op: HostOp) -> None:
    """Python(X...; token, pickled_builder) -> Y...: call a function of the program."""
    if not _callers:
        raise op.error(
            "Python operators run only in programs of Caffe2's own Python: see caffe2_backend.install_caffe2"
        )
    _callers[0](op)
