"""Real Caffe2 in a process that answers one net after another, and is started again when it dies or hangs."""

from __future__ import annotations

import io
import select
import struct
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Final, Self

import numpy as np

from conformance.oracle import (
    ORACLE_WORKER,
    OracleResult,
    OracleRun,
    oracle_environment,
    request_arrays,
    required_oracle,
    results_of,
)

_HEAD: Final = struct.Struct("<Q")
TIME_LIMIT: Final = 20.0
START_LIMIT: Final = 120.0


class OracleDiedError(RuntimeError):
    """The process died, or did not answer in time, on a net that real Caffe2 did not refuse."""


class OracleServer:
    """One process with real Caffe2 on one thread; a context manager that ends it.

    ``time_limit`` is in seconds a net. ``filler`` is the byte that new memory is filled with, so that results that
    depend on memory that Caffe2 did not write differ between servers. Raises OracleError where Caffe2 is not installed.
    """

    def __init__(self, time_limit: float = TIME_LIMIT, filler: int | None = None) -> None:
        self._python = required_oracle()
        self._environment = oracle_environment(1)
        if filler is not None:
            self._environment["MALLOC_PERTURB_"] = str(filler)
        self._time_limit = time_limit
        self._folder = tempfile.TemporaryDirectory()  # some operators write files
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self.restart()
        self._folder.cleanup()

    def restart(self) -> None:
        """End the process; the next net starts another, whose memory no earlier net has written to."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def run(self, run: OracleRun) -> OracleResult:
        """Run a net. Raises OracleDiedError if the process dies or does not answer in time."""
        fresh = self._process is None
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603 - the python that the user installed Caffe2 in
                [self._python, ORACLE_WORKER, "--serve"],
                env=self._environment,
                cwd=self._folder.name,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
            )
        body = io.BytesIO()
        np.savez(body, **request_arrays([run]))
        deadline = time.monotonic() + self._time_limit + (START_LIMIT if fresh else 0)
        try:
            self._send(_HEAD.pack(body.tell()) + body.getvalue())
            response = self._read(_HEAD.unpack(self._read(_HEAD.size, deadline))[0], deadline)
        except (BrokenPipeError, EOFError, TimeoutError) as error:
            self.restart()
            raise OracleDiedError(str(error) or "the process died") from None
        with np.load(io.BytesIO(response), allow_pickle=False) as archive:
            return results_of(dict(archive))[0]

    def _send(self, data: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        rest = memoryview(data)
        while rest:
            rest = rest[self._process.stdin.write(rest) :]

    def _read(self, size: int, deadline: float) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        stream = self._process.stdout
        data = bytearray()
        while len(data) < size:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stream], [], [], left)[0]:
                raise TimeoutError(f"no result within {self._time_limit:.0f} seconds")
            piece = stream.read(size - len(data))
            if not piece:
                assert self._process is not None
                raise EOFError(f"the process died with exit status {self._process.wait()}")
            data += piece
        return bytes(data)
