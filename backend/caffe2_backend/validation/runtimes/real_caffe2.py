"""Real Caffe2, in a process of its own under the Python that has it."""

from __future__ import annotations

import atexit
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime import Int8Tensor
from caffe2_backend.validation.runtimes.base import AnyModel, Form, Value, caffe2_model
from caffe2_backend.validation.runtimes.caffe2_worker import pack, read_frame
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.model import Model

_WORKER: Final = Path(__file__).with_name("caffe2_worker.py")
_START_SECONDS: Final = 120.0
_CHUNK: Final = 1 << 20
HINT: Final = "install it with `caffe2-bridge oracle install`, or name its Python with --caffe2-python or CAFFE2_PYTHON"


def cache_folder() -> Path:
    """Where real Caffe2 is installed: $CAFFE2_ORACLE_DIR, else ``~/.cache/caffe2-oracle``."""
    folder = os.environ.get("CAFFE2_ORACLE_DIR")
    return Path(folder) if folder else Path.home() / ".cache" / "caffe2-oracle"


def is_requested(python: str | None = None) -> bool:
    """Whether the user asks for real Caffe2 by naming its Python: as an option, or in $CAFFE2_PYTHON."""
    return bool(python or os.environ.get("CAFFE2_PYTHON"))


def find_python() -> Path | None:
    """The Python that has real Caffe2: $CAFFE2_PYTHON, else that of the cache folder; None if it is not installed."""
    named = os.environ.get("CAFFE2_PYTHON")
    if named:
        return Path(named)
    python = cache_folder() / "bin" / "python"
    return python if python.is_file() else None


class Caffe2:
    """Real Caffe2 on the CPU. The process starts with the first model and serves all that follow.

    Args:
        python: the Python that has Caffe2; None finds it.
        seconds: what a run may take before the process is ended.
        memory: MiB of address space that the process may take; 0 for no limit.
    """

    name = "caffe2"
    form: Form = "caffe2"

    def __init__(self, python: str | Path | None = None, *, seconds: float = 300.0, memory: int = 16384) -> None:
        self._python = find_python() if python is None else Path(python)
        self._seconds = seconds
        self._memory = memory
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Any = None
        self._keys = count()
        self._loaded: set[str] = set()
        self._about: dict[str, str] = {}

    def missing(self) -> str:
        """See Runtime."""
        if self._python is None:
            return f"real Caffe2 is not installed: {HINT}"
        if not self._python.is_file():
            return f"Python {self._python} does not exist: {HINT}"
        return "" if os.access(self._python, os.X_OK) else f"Python {self._python} is not executable: {HINT}"

    def versions(self) -> dict[str, str]:
        """See Runtime. Starts the process."""
        if not self._about:
            header, _ = self._ask({"do": "about"}, {}, _START_SECONDS)
            self._about = {"caffe2 of torch": header["torch"], "caffe2's python": header["python"]}
        return dict(self._about)

    def load(self, model: AnyModel) -> _Loaded:
        """See Runtime."""
        return _Loaded(self, caffe2_model(model), str(next(self._keys)))

    def run(self, key: str, model: Model, inputs: Mapping[str, Any], outputs: list[str] | None) -> dict[str, Any]:
        """Run a model, which is sent where the process does not have it. Raises RunError."""
        if self._process is None or key not in self._loaded:
            nets = {"init": model.init_net.SerializeToString() if model.init.parameters or model.init.rest else b""}
            nets["net"] = model.predict_net.SerializeToString()
            self._ask({"do": "load", "key": key}, {n: np.frombuffer(d, np.uint8) for n, d in nets.items()}, None)
            self._loaded.add(key)
        _, values = self._ask({"do": "run", "key": key, "outputs": outputs}, inputs, None)
        return values

    def forget(self, key: str) -> None:
        """Drop a model. A process that has ended has nothing to drop."""
        if self._process is not None and key in self._loaded:
            self._loaded.discard(key)
            self._ask({"do": "forget", "key": key}, {}, None)

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        self._loaded.clear()
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, self._errors):
            if pipe is not None:
                pipe.close()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            reason = self.missing()
            if reason:
                raise RunError(reason)
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": ""}
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process, closed with it
            self._process = subprocess.Popen(  # noqa: S603 - the Python that the user named or installed Caffe2 in
                [str(self._python), str(_WORKER), str(self._memory)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment, bufsize=0,
            )  # fmt: skip
            atexit.register(self.close)
        return self._process

    def _ask(
        self, header: dict[str, Any], values: Mapping[str, Any], seconds: float | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        fresh = self._process is None
        process = self._start()
        limit = (self._seconds if seconds is None else seconds) + (_START_SECONDS if fresh else 0)
        deadline = time.monotonic() + limit
        assert process.stdin is not None
        assert process.stdout is not None
        source = process.stdout.fileno()

        def read(size: int) -> bytes:
            parts, left = [], size
            while left:
                wait = deadline - time.monotonic()
                if wait <= 0 or not select.select([source], [], [], wait)[0]:
                    self.close()
                    raise RunError(f"real Caffe2 did not answer within {limit:.0f} seconds and was ended")
                part = os.read(source, min(left, _CHUNK))
                if not part:
                    break
                parts.append(part)
                left -= len(part)
            return b"".join(parts)

        try:
            for part in pack(header, dict(values)):
                view = memoryview(part)
                while view:
                    view = view[process.stdin.write(view) :]
            frame = read_frame(read)
        except BrokenPipeError:
            frame = None
        if frame is None:
            raise RunError(self._ended(process))
        if "error" in frame[0]:
            # What follows are addresses in its libraries.
            raise RunError(f"caffe2: {frame[0]['error'].partition(chr(10) + 'frame #')[0].strip()}")
        return frame

    def _ended(self, process: subprocess.Popen[bytes]) -> str:
        """Why the process is gone."""
        status = process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        self.close()
        return "\n".join([f"real Caffe2 ended with status {status}:", *lines[-10:]])


@cache
def shared_caffe2(python: str | None = None) -> Caffe2:
    """One process for everything that is validated in this one, so that it starts once."""
    return Caffe2(python)


class _Loaded:
    def __init__(self, runtime: Caffe2, model: Model, key: str) -> None:
        self._runtime = runtime
        self._model = model
        self._key = key

    def run(self, inputs: Mapping[str, Value], outputs: Sequence[str] | None = None) -> dict[str, Value]:
        given = {name: tuple(v) if isinstance(v, Int8Tensor) else v for name, v in inputs.items()}
        wanted = list(self._model.outputs if outputs is None else outputs)
        found = self._runtime.run(self._key, self._model, given, wanted)
        return {name: Int8Tensor(*value) if isinstance(value, tuple) else value for name, value in found.items()}

    def __del__(self) -> None:
        try:
            self._runtime.forget(self._key)
        except (RunError, OSError, ValueError):  # the process is ending, or has ended
            return
