"""Real Caffe2, in a process of its own under the Python that has it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.blobs.host_fills import parameter_value
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_validation.runtimes.base import AnyModel, Form, caffe2_model
from caffe2_validation.runtimes.process_runtime import ProcessRuntime, sent

_WORKER: Final = Path(__file__).with_name("caffe2_worker.py")
_ENVIRONMENT: Final = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": ""}
_LARGEST_MESSAGE: Final = 1 << 30  # bytes of an init net that Caffe2 itself reads
HINT: Final = "install it with `caffe2-bridge oracle install`, or name its Python with --caffe2-python or CAFFE2_PYTHON"


def cache_folder() -> Path:
    """Return where real Caffe2 is installed: $CAFFE2_ORACLE_DIR, else ``~/.cache/caffe2-oracle``."""
    folder = os.environ.get("CAFFE2_ORACLE_DIR")
    return Path(folder) if folder else Path.home() / ".cache" / "caffe2-oracle"


def is_requested(python: str | None = None) -> bool:
    """Whether the user asks for real Caffe2 by naming its Python: as an option, or in $CAFFE2_PYTHON."""
    return bool(python or os.environ.get("CAFFE2_PYTHON"))


def find_python() -> Path | None:
    """Return the Python with real Caffe2: $CAFFE2_PYTHON, else that of the cache folder; None if not installed."""
    named = os.environ.get("CAFFE2_PYTHON")
    if named:
        return Path(named)
    python = cache_folder() / "bin" / "python"
    return python if python.is_file() else None


class Caffe2(ProcessRuntime[Model]):
    """Real Caffe2 on the CPU.

    Args:
        python: the Python that has Caffe2; None finds it.
        seconds: what a run may take, from when the process turns to it, before the process is ended.
        memory: MiB of address space that the process may take; 0 for no limit.
    """

    form: Form = "caffe2"

    def __init__(self, python: str | Path | None = None, *, seconds: float = 300.0, memory: int = 16384) -> None:
        super().__init__("caffe2", "real Caffe2", seconds)
        self._python = find_python() if python is None else Path(python)
        self._memory = memory

    def missing_program(self) -> str:
        """See ProcessRuntime."""
        if self._python is None:
            return f"real Caffe2 is not installed: {HINT}"
        if not self._python.is_file():
            return f"Python {self._python} does not exist: {HINT}"
        return "" if os.access(self._python, os.X_OK) else f"Python {self._python} is not executable: {HINT}"

    def command(self) -> tuple[list[str], dict[str, str]]:
        """See ProcessRuntime."""
        assert self._python is not None  # else it is missing
        return [str(self._python.absolute()), str(_WORKER), str(self._memory)], _ENVIRONMENT

    def model_of(self, model: AnyModel) -> Model:
        """See ProcessRuntime."""
        return caffe2_model(model)

    def outputs_of(self, model: Model) -> list[str]:
        """See ProcessRuntime."""
        return list(model.outputs)

    def load_requests(self, model: Model) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """See ProcessRuntime. The parameters of a large init net are sent one by one, decoded.

        Caffe2, as protobuf, reads no message of more than 2 GB.
        """
        init = model.init
        is_large = init.stored_bytes > _LARGEST_MESSAGE
        if is_large:
            data = NetDef(op=[op.proto for op in init.rest]).SerializeToString()
        else:
            data = b"".join(init.serialized()) if init.parameters or init.rest else b""
        nets = {"init": data, "net": model.predict_net.SerializeToString()}
        yield {"do": "load"}, {name: np.frombuffer(data, np.uint8) for name, data in nets.items()}
        for name, parameter in init.parameters.items() if is_large else ():
            yield {"do": "fill"}, {name: sent(parameter_value(parameter))}


@cache
def shared_caffe2(python: str | None = None) -> Caffe2:
    """Return one process for everything that is validated in this one, so that it starts once."""
    return Caffe2(python)
