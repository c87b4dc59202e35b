"""Prepared nets: host fills and a program, run on a store of blobs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.counters import counters_as_tensors
from caffe2_backend.runtime.host_fills import run_fill, split_fills
from caffe2_backend.runtime.partition.staged import Runnable, make_program
from caffe2_backend.runtime.results import Blobs, DeferredBlob, Results
from caffe2_backend.runtime.session_options import SessionOptions
from caffe2_backend.runtime.values import Tensor, Value
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef

# References to a blob's value during a run: of the store, and of the run's inputs.
_HELD: Final = 2


class BlobStore:
    """The blobs of a workspace.

    Attributes:
        blobs: values by name, some of them deferred.
        constants: blobs that init nets made: nets take them as constants while they do not change.
        created: names of blobs that exist even without a value.
        lock: held while blobs are read or written.
    """

    def __init__(self, seed: int | None) -> None:
        self.blobs: dict[str, Value | DeferredBlob] = {}
        self.constants: dict[str, Value] = {}
        self.created: set[str] = set()
        self.lock = threading.RLock()
        self._random = np.random.default_rng(seed)

    def draw_seed(self) -> int:
        """A seed for the random fills of one run."""
        with self.lock:
            return int(self._random.integers(2**62))

    def commit(self, results: Results, *, constant: bool = False) -> None:
        """Write the results of a run; ``constant`` if an init net made them."""
        with self.lock:
            self.blobs.update(results.deferred)
            self.blobs.update(results.objects)
            self.blobs.update(results.values)
            if constant:
                self.constants.update(results.values)

    def remove(self, name: str) -> bool:
        """Remove a blob; return whether it existed."""
        with self.lock:
            existed = name in self.created or name in self.blobs
            self.created.discard(name)
            self.constants.pop(name, None)
            self.blobs.pop(name, None)
            return existed

    def clear(self) -> None:
        """Remove all blobs."""
        with self.lock:
            self.blobs.clear()
            self.constants.clear()
            self.created.clear()


@dataclass
class PreparedNet:
    """A net ready to run: the fills that run on the host, then the program of the other operators."""

    net: NetDef
    fills: tuple[OpView, ...]
    program: Runnable | None
    is_init: bool
    runs: int = 0
    _counter: threading.Lock = field(default_factory=threading.Lock)

    def run(self, store: BlobStore) -> None:
        """Run once: read the inputs at one moment, and write the results at one moment."""
        if self.fills:
            store.commit(Results(self._fill(store.draw_seed())), constant=True)
        if self.program is None:
            return
        with store.lock:
            given = self.program.collect(store.blobs)
            if self.program.updates_in_place:
                # Under the lock: nobody reads a blob while it changes.
                store.commit(self.program.run(given, store.constants, held=_HELD), constant=self.is_init)
                return
        store.commit(self.program.run(given, store.constants), constant=self.is_init)

    def run_operator(self, blobs: Blobs, store: BlobStore, whole: NetDef) -> Results:
        """Run a net of one operator on other blobs, as a step of the net ``whole``, and write nothing."""
        if self.fills:
            (fill,) = self.fills
            return Results({fill.outputs[0]: run_fill(fill, {}, whole, store.draw_seed(), 0)})
        assert self.program is not None
        return self.program.run(self.program.collect(blobs), store.constants)

    def _fill(self, seed: int) -> dict[str, Tensor]:
        with self._counter:
            self.runs += 1
            turn = self.runs - 1
        made: dict[str, Any] = {}
        for op in self.fills:
            made[op.outputs[0]] = run_fill(op, made, self.net, seed, turn)
        return made


def prepare_net(net: NetDef, device: str | None, options: SessionOptions) -> PreparedNet:
    """Prepare a net; see :func:`make_program` for ``device``. It is converted when it first runs."""
    own = NetDef()
    own.CopyFrom(net)
    counters_as_tensors(own)
    init = is_init_net(own)
    fills, rest = split_fills(own) if init else ((), own)
    program = make_program(rest, device, options) if rest.op else None
    return PreparedNet(own, fills, program, init)


def is_init_net(net: NetDef) -> bool:
    """Whether a net reads nothing that it does not make."""
    made: set[str] = set()
    for op in net.op:
        if not made.issuperset(op.input) or any(arg.HasField("n") or arg.nets for arg in op.arg):
            return False
        made.update(op.output)
    return True
