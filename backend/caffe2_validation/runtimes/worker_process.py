"""A process that answers requests for a runtime: frames on its standard input and output (:mod:`.caffe2_worker`)."""

from __future__ import annotations

import os
import select
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Final

from caffe2_bridge.diagnostics import RunError
from caffe2_validation.runtimes.caffe2_worker import hard_limit, pack, read_frame

if TYPE_CHECKING:
    import subprocess

_CHUNK: Final = 1 << 20


class WorkerProcess:
    """A process with a runtime, which answers one request after the other.

    Args:
        name: what runs there, for messages.
        command: its program and arguments, to which a folder of its own is added.
        environment: variables in addition to this process's.
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        import subprocess

        self._name = name
        self._folder = tempfile.mkdtemp(prefix="caffe2-bridge-")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process, closed with it
        self._process = subprocess.Popen(  # noqa: S603 - a program that the user named or installed
            [*command, self._folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            env={**os.environ, **environment}, bufsize=0,
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
            raise RunError(f"{self._name} did not answer within {seconds:.0f} seconds and was ended") from None
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
        return "\n".join([f"{self._name} ended with status {status}:", *lines[-10:]])


def _end(process: subprocess.Popen[bytes], errors: IO[bytes], folder: str, owner: int) -> None:
    """End a process, without a word to it; a fork of its owner closes its own ends of the pipes only."""
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
