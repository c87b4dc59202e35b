"""A job of a fleet: one model and all that any process needs to run it, as plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

from caffe2_bridge.diagnostics import OptionError
from caffe2_fleet.task import ModelTask

_PROCESS: Final = 384 << 20  # bytes of a process that has read a small model
_COPIES: Final = 6


@dataclass(frozen=True)
class Limits:
    """Limits of one model.

    Attributes:
        seconds: of its run.
        memory: resident bytes of its process; None for no limit.

    Raises OptionError if a limit is not a positive number.
    """

    seconds: float = 600.0
    memory: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf:
            raise OptionError(f"the time limit must be a positive number of seconds, not {self.seconds:g}")
        if self.memory is not None and self.memory <= 0:
            raise OptionError(f"the memory limit must be a positive number of bytes, not {self.memory}")


@dataclass(frozen=True)
class Job:
    """One model to run.

    Attributes:
        task: the model.
        options: of the validation, as JSON text.
        target: folder of the batch; empty if nothing is written.
        key: digest of the model's files and of what is asked of it; empty if the files cannot be read.
        bytes: the size of the model's files.
        limits: of time and memory.
        plugins: the modules that the model's process imports first, see :mod:`caffe2_bridge.plugins`.
    """

    task: ModelTask
    options: str
    target: str = ""
    key: str = ""
    bytes: int = 0
    limits: Limits = field(default_factory=Limits)
    plugins: tuple[str, ...] = ()

    @property
    def share(self) -> int:
        """Bytes of memory that the model is expected to take, at most its limit.

        The file, the net with its weights, the export, its serialization and the weights of two runtimes are in memory
        at the same time.
        """
        share = _PROCESS + _COPIES * self.bytes
        return share if self.limits.memory is None else min(share, self.limits.memory)

    @property
    def page(self) -> str:
        """The page of the model under the target; empty if nothing is written."""
        return f"pages/{self.task.stem}.html" if self.target else ""

    def request(self) -> dict[str, Any]:
        """Return the request to a model process."""
        return {
            "task": self.task.to_json(), "options": self.options, "target": self.target,
            "onnx": f"onnx/{self.task.stem}.onnx", "page": self.page, "repro": "", "plugins": self.plugins,
        }  # fmt: skip

    def diagnosis(self) -> dict[str, Any]:
        """Return the request that also finds the operator that differs, and writes it under the target."""
        return self.request() | {"repro": f"repro/{self.task.stem}"}
