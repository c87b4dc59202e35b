"""Operators on objects that live in blobs: queues, counters, mutexes, indices, maps, statistics, timers and windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from caffe2_backend.runtime.host.family import HostFunction
from caffe2_backend.runtime.host.objects import (
    atomics,
    blobs_queue,
    counters,
    indices,
    maps,
    rebatching_queue,
    statistics,
    timers,
    windows,
)
from caffe2_bridge.registry import Family

FAMILIES: Final[Sequence[Family[HostFunction]]] = (
    atomics.family,
    blobs_queue.family,
    counters.family,
    indices.family,
    maps.family,
    rebatching_queue.family,
    statistics.family,
    timers.family,
    windows.family,
)
