"""Report faults of this project's own code as diagnostics, so that a caller handles one kind of error alone."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from caffe2_bridge.diagnostics.diagnostic import Diagnostic, Location
from caffe2_bridge.diagnostics.errors import BridgeError, ConversionError
from caffe2_bridge.environment import environment_variable
from caffe2_bridge.verification import is_verifying

# Set (to anything but the empty string): faults surface as the exceptions that they are.
VARIABLE: Final = "CAFFE2_BRIDGE_DEBUG"

_PACKAGES: Final = (
    "caffe2_bridge", "caffe2_frontend", "caffe2_backend", "caffe2_validation", "caffe2_compat", "caffe2_fleet",
    "caffe2_deploy", "caffe2_cli", "caffe2_torch",
)  # fmt: skip
_HINT: Final = "this is a fault of caffe2-bridge: please report it with the model; --debug shows where it occurred"
_LONGEST: Final = 300


def raises_faults() -> bool:
    """Whether faults surface: in debug mode, and where self-checks are switched on."""
    return bool(os.environ.get(VARIABLE)) or is_verifying()


@contextmanager
def debug_mode() -> Iterator[None]:
    """Let faults surface, in processes that are started meanwhile too."""
    with environment_variable(VARIABLE, "1"):
        yield


def internal_error(error: Exception, location: Location | None = None) -> Diagnostic:
    """Return the diagnostic of a fault. Raises ``error`` itself where faults surface.

    An error of the project that a library passed on as one of its own, such as that of damaged weights, is not a fault,
    and is raised again. Nor is a lack of memory, for which BridgeError is raised.
    """
    own = _wrapped(error)
    if own is not None:
        raise own
    if isinstance(error, MemoryError):
        here = f"{location}: " if location is not None else ""
        raise BridgeError(f"{here}there is not enough memory{f': {error}' if str(error) else ''}") from error
    if raises_faults():
        raise error
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    reason = f"internal error at {_place(error)}: {text[:_LONGEST]}"
    return Diagnostic("internal-error", reason, location or Location(), hint=_HINT)


@contextmanager
def faults_reported(findings: Sequence[Diagnostic] = (), location: Location | None = None) -> Iterator[None]:
    """Raise ConversionError for a fault in the block, with ``findings`` before it.

    Errors of the model, the file or the call pass unchanged, as OSError does.
    """
    try:
        yield
    except (BridgeError, OSError):
        raise
    except Exception as error:
        raise ConversionError([*findings, internal_error(error, location)]) from error


def _wrapped(error: BaseException) -> BridgeError | None:
    """Return the project's own error that led to another one."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, BridgeError):
            return cause
        seen.add(id(cause))
        cause = cause.__cause__
    return None


def _place(error: Exception) -> str:
    """Return the innermost line of this project that an exception passed."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        parts = Path(frame.filename).parts
        for package in _PACKAGES:
            if package in parts:
                return f"{'/'.join(parts[parts.index(package) :])}:{frame.lineno} ({frame.name})"
    return "an unknown place"
