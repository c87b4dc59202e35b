"""Real Caffe2 in a process that answers many requests, and survives what kills or hangs one of them."""

from __future__ import annotations

import atexit
import io
import json
import math
import os
import select
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np

from conformance.corpus import Array
from conformance.oracle.runs import (
    ORACLE_WORKER,
    OracleError,
    OracleResult,
    OracleRun,
    oracle_environment,
    request_arrays,
    required_oracle,
    results_of,
)

_HEAD: Final = struct.Struct("<Q")
TIME_LIMIT: Final = 20
_OF_TESTS: Final = 300
WAIT_LIMIT: Final = 300.0


class OracleDiedError(RuntimeError):
    """The process died, or did not answer in time, on a net that real Caffe2 did not refuse."""


class OracleServer:
    """One process with real Caffe2 on one thread; a context manager that ends it.

    Each request runs in memory that no earlier one has written to. ``time_limit`` is in whole seconds of CPU time a
    net. ``filler`` is the byte that new memory is filled with, so that results that depend on memory that Caffe2 did
    not write differ between servers. Raises OracleError where Caffe2 is not installed.
    """

    def __init__(self, time_limit: int = TIME_LIMIT, filler: int | None = None) -> None:
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
        self._stop()
        self._folder.cleanup()

    def _stop(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    def run(self, run: OracleRun) -> OracleResult:
        """Run a net. Raises OracleDiedError if the process dies or does not answer in time."""
        (result,) = self.run_all([run])
        if isinstance(result, OracleDiedError):
            raise result
        return result

    def run_all(self, runs: Sequence[OracleRun], deadline: float = math.inf) -> list[OracleResult | OracleDiedError]:
        """Run nets one after another; an OracleDiedError for each on which the process dies or is too slow.

        A net on which the process dies after ``deadline`` (of ``time.monotonic()``) is the last one that is run: each
        later one has an OracleDiedError as well.
        """
        results: list[OracleResult | OracleDiedError] = []
        while len(results) < len(runs):
            rest = runs[len(results) :]
            if results and time.monotonic() > deadline:
                results += [OracleDiedError("no time left")] * len(rest)
                break
            answered: list[OracleResult] = []
            try:
                self._send_request(rest)
                end = self._add_responses(answered)
            except (OSError, EOFError, MemoryError) as error:  # the process that forks died, hangs, or sends too much
                end = str(error) or type(error).__name__
                self._stop()
            results += answered
            if len(answered) < len(rest):
                results.append(OracleDiedError(end))
        return results

    def _send_request(self, runs: Sequence[OracleRun]) -> None:
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603 - the python that the user installed Caffe2 in
                [self._python, ORACLE_WORKER, str(self._time_limit)],
                env=self._environment,
                cwd=self._folder.name,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
            )
        body = _packed(request_arrays(runs))
        self._send(_HEAD.pack(len(body)) + body)

    def _add_responses(self, results: list[OracleResult]) -> str:
        """Add the results of a request, and return how its process died."""
        while True:
            deadline = time.monotonic() + WAIT_LIMIT
            arrays = _unpacked(self._read(_HEAD.unpack(self._read(_HEAD.size, deadline))[0], deadline))
            end: str | None = json.loads(arrays["meta"].tobytes())[0].get("end")
            if end is not None:
                return end
            results += results_of(arrays)

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
                raise TimeoutError(f"real Caffe2 does not answer within {WAIT_LIMIT:.0f} seconds")
            piece = stream.read(size - len(data))
            if not piece:
                raise EOFError(f"real Caffe2 ended with status {self._process.wait()}")
            data += piece
        return bytes(data)


def run_oracle(runs: Sequence[OracleRun]) -> list[OracleResult]:
    """Run nets in real Caffe2, one after another in one process with one thread.

    Raises OracleError where Caffe2 is not installed or the process dies.
    """
    results = []
    for result in _shared_server(required_oracle()).run_all(runs):
        if isinstance(result, OracleDiedError):
            raise OracleError(f"real Caffe2: {result}")
        results.append(result)
    return results


@cache
def _shared_server(_python: Path) -> OracleServer:
    """Return the server of this process, as loading Caffe2 takes longer than most nets."""
    server = OracleServer(_OF_TESTS)
    atexit.register(server.close)
    return server


def _packed(arrays: Mapping[str, Array]) -> bytes:
    """Return arrays in the worker's format: their names as a line of JSON, and each in NumPy's format."""
    stream = io.BytesIO()
    stream.write(json.dumps(list(arrays)).encode() + b"\n")
    for array in arrays.values():
        np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _unpacked(data: bytes) -> dict[str, Array]:
    stream = io.BytesIO(data)
    return {name: np.load(stream, allow_pickle=False) for name in json.loads(stream.readline())}
