"""Real Caffe2, in a process of its own under the Python that has it."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from caffe2_backend.runtime import Int8Tensor
from caffe2_backend.runtime.blobs.host_fills import parameter_value
from caffe2_backend.runtime.values import Tensor
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_validation.runtimes.base import AnyModel, Form, Value, caffe2_model
from caffe2_validation.runtimes.caffe2_worker import hard_limit, pack, read_frame

_WORKER: Final = Path(__file__).with_name("caffe2_worker.py")
_START_SECONDS: Final = 120.0
_CHUNK: Final = 1 << 20
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


class Caffe2:
    """Real Caffe2 on the CPU. The process starts with the first model and serves all that follow.

    Threads may share one: the process answers one request after the other. A fork forgets the process, which stays its
    parent's, and starts one of its own.

    Args:
        python: the Python that has Caffe2; None finds it.
        seconds: what a run may take, from when the process turns to it, before the process is ended.
        memory: MiB of address space that the process may take; 0 for no limit.
    """

    name = "caffe2"
    form: Form = "caffe2"

    def __init__(self, python: str | Path | None = None, *, seconds: float = 300.0, memory: int = 16384) -> None:
        self._python = find_python() if python is None else Path(python)
        self._seconds = seconds
        self._memory = memory
        self._keys = count()
        self._about: dict[str, str] = {}
        self._dropped: deque[str] = deque()
        self._forked()
        _INSTANCES.add(self)

    def _forked(self) -> None:
        """Begin without a process; after a fork, that of the parent and a lock that one of its threads may hold."""
        self._lock = threading.RLock()
        self._process: _Process | None = None
        self._loaded: set[str] = set()

    def missing(self) -> str:
        """See Runtime."""
        if self._python is None:
            return f"real Caffe2 is not installed: {HINT}"
        if not self._python.is_file():
            return f"Python {self._python} does not exist: {HINT}"
        return "" if os.access(self._python, os.X_OK) else f"Python {self._python} is not executable: {HINT}"

    def versions(self) -> dict[str, str]:
        """See Runtime. Starts the process."""
        with self._lock:
            if not self._about:
                header, _ = self._ask({"do": "about"}, {}, _START_SECONDS)
                self._about = {"caffe2 of torch": header["torch"], "caffe2's python": header["python"]}
            return dict(self._about)

    def load(self, model: AnyModel) -> _Loaded:
        """See Runtime."""
        return _Loaded(self, caffe2_model(model), str(next(self._keys)))

    def run(self, key: str, model: Model, inputs: Mapping[str, Any], outputs: list[str] | None) -> dict[str, Any]:
        """Run a model, which is sent where the process does not have it. Raises RunError."""
        with self._lock:
            if self._process is None or key not in self._loaded:
                for request, values in _load_requests(model):
                    self._ask({**request, "key": key}, values, None)
                self._loaded.add(key)
            _, values = self._ask({"do": "run", "key": key, "outputs": outputs}, inputs, None)
            return values

    def forget(self, key: str) -> None:
        """Drop a model with the next request: this is called where an object ends, in the middle of anything."""
        self._dropped.append(key)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            process, self._process = self._process, None
            self._loaded.clear()
            if process is not None:
                process.close()

    def _ask(
        self, header: dict[str, Any], values: Mapping[str, Any], seconds: float | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Ask the process, with the lock held. One that was left in the middle of an answer is ended."""
        limit = self._seconds if seconds is None else seconds
        if self._process is None:
            reason = self.missing()
            if reason:
                raise RunError(reason)
            assert self._python is not None
            self._process = _Process(self._python, self._memory)
            limit += _START_SECONDS
        dropped = [self._dropped.popleft() for _ in range(len(self._dropped))]
        self._loaded.difference_update(dropped)
        try:
            answer, found = self._process.ask({**header, "forget": dropped}, values, limit)
        except BaseException:  # Ctrl-C, too
            self.close()
            raise
        if "error" in answer:
            # What follows are addresses in its libraries.
            raise RunError(f"caffe2: {answer['error'].partition(chr(10) + 'frame #')[0].strip()}")
        return answer, found


class _Process:
    """A process with real Caffe2, which answers one request after the other.

    Args:
        python: the Python that has Caffe2.
        memory: see Caffe2.
    """

    def __init__(self, python: Path, memory: int) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": ""}
        self._folder = tempfile.mkdtemp(prefix="caffe2-bridge-")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process, closed with it
        self._process = subprocess.Popen(  # noqa: S603 - the Python that the user named or installed Caffe2 in
            [str(python.absolute()), str(_WORKER), str(memory), self._folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment, bufsize=0,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        os.set_blocking(self._requests.fileno(), False)
        # End the process: asked for, where this object ends, or where this process does.
        self.close = weakref.finalize(self, _end, self._process, self._errors, self._folder, os.getpid())

    def ask(
        self, header: Mapping[str, Any], values: Mapping[str, Any], seconds: float
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Send a request and return the answer. Raises RunError if there is none within so many seconds."""
        deadline = time.monotonic() + seconds
        try:
            self._send(pack(dict(header), dict(values)), deadline)
            frame = read_frame(lambda size: self._read(size, deadline))
        except BrokenPipeError:
            frame = None
        except TimeoutError:
            raise RunError(f"real Caffe2 did not answer within {seconds:.0f} seconds and was ended") from None
        if frame is None:
            raise RunError(self._ended())
        return frame

    def _send(self, parts: Iterable[bytes], deadline: float) -> None:
        for part in parts:
            view = memoryview(part)
            while view:
                if not select.select([], [self._requests], [], max(deadline - time.monotonic(), 0))[1]:
                    raise TimeoutError
                view = view[self._requests.write(view) or 0 :]

    def _read(self, size: int, deadline: float) -> bytes:
        """Read so many bytes, or fewer where the process ends."""
        parts, left = [], size
        while left:
            if not select.select([self._answers], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise TimeoutError
            part = self._answers.read(min(left, _CHUNK))
            if not part:
                break
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _ended(self) -> str:
        """Say why the process is gone."""
        status = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        limit = hard_limit()
        if limit is not None:
            lines.append(f"(its address space is limited to {limit >> 20:,} MiB: `ulimit -v` shows the limit in KiB)")
        return "\n".join([f"real Caffe2 ended with status {status}:", *lines[-10:]])


def _end(process: subprocess.Popen[bytes], errors: IO[bytes], folder: str, owner: int) -> None:
    """End a process of real Caffe2, without a word to it; a fork of its owner closes its own ends of the pipes only."""
    if os.getpid() == owner:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)
    else:
        process.returncode = 0  # so that nothing here waits for it
    assert process.stdin is not None
    assert process.stdout is not None
    for pipe in (process.stdin, process.stdout, errors):
        pipe.close()


# All that exist: a fork forgets their processes.
_INSTANCES: Final[weakref.WeakSet[Caffe2]] = weakref.WeakSet()


def _forget_processes() -> None:
    for instance in list(_INSTANCES):
        if instance._process is not None:  # noqa: SLF001 - the same module
            instance._process.close()  # noqa: SLF001 - the same
        instance._forked()  # noqa: SLF001 - the same


os.register_at_fork(after_in_child=_forget_processes)


@cache
def shared_caffe2(python: str | None = None) -> Caffe2:
    """Return one process for everything that is validated in this one, so that it starts once."""
    return Caffe2(python)


def _load_requests(model: Model) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """Yield what is asked to load a model. The parameters of a large init net are sent one by one, decoded.

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
        yield {"do": "fill"}, {name: _sent(parameter_value(parameter))}


def _sent(value: Tensor) -> Any:
    """Return a value as the process takes it: an Int8 tensor is a plain tuple."""
    return tuple(value) if isinstance(value, Int8Tensor) else value


class _Loaded:
    def __init__(self, runtime: Caffe2, model: Model, key: str) -> None:
        self._runtime = runtime
        self._model = model
        self._key = key

    def run(self, inputs: Mapping[str, Value], outputs: Sequence[str] | None = None) -> dict[str, Value]:
        given = {name: _sent(value) for name, value in inputs.items()}
        wanted = list(self._model.outputs if outputs is None else outputs)
        found = self._runtime.run(self._key, self._model, given, wanted)
        return {name: Int8Tensor(*value) if isinstance(value, tuple) else value for name, value in found.items()}

    def __del__(self) -> None:
        self._runtime.forget(self._key)
