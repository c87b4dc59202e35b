"""What an engine is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from caffe2_fleet.job import Job
from caffe2_fleet.result import ModelResult


class Engine(Protocol):
    """Where jobs run."""

    def run(self, jobs: Sequence[Job]) -> Iterator[ModelResult]:
        """Run jobs and yield a result for each, as they end. What still runs is given up when the iterator is closed.

        Raises RunError if the engine is lost.
        """

    def close(self) -> None:
        """End what the engine started."""
