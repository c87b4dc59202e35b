"""Which engine runs a fleet, by its name."""

from __future__ import annotations

import os
from concurrent.futures import Executor
from typing import Any, Final

from caffe2_bridge.diagnostics import OptionError, RunError
from caffe2_fleet.engines.base import Engine
from caffe2_fleet.engines.local import LocalEngine

ENGINES: Final = "local, dask, dask://HOST:PORT or slurm"


def open_engine(engine: Any, jobs: int) -> Engine:
    """Open an engine.

    Args:
        engine: its name, an executor of ``concurrent.futures``, or a ``distributed.Client``: see
            :func:`caffe2_backend.fleet.run`.
        jobs: models at a time, on an engine that starts its own workers.

    Raises OptionError if it does not exist, and RunError if it is not installed, does not answer, or the system has no
    processes of its kind.
    """
    if engine == "local":
        if not hasattr(os, "fork"):  # Windows
            raise RunError(
                "a fleet runs its models in processes that are asked through pipes, which takes a POSIX system"
            )
        return LocalEngine(jobs)
    if isinstance(engine, str) and (engine in ("dask", "slurm") or engine.startswith("dask://")):
        from caffe2_fleet.engines import clusters

        return clusters.open_cluster(engine, jobs)
    if isinstance(engine, str):
        raise OptionError(f"engine must be {ENGINES}, not {engine!r}")
    if isinstance(engine, Executor):
        from caffe2_fleet.engines.executor import ExecutorEngine

        return ExecutorEngine(engine)
    if not hasattr(engine, "scheduler_info"):
        kind = type(engine).__name__
        raise OptionError(
            f"engine must be a name ({ENGINES}), an executor of concurrent.futures or a distributed.Client, not {kind}"
        )
    from caffe2_fleet.engines.dask import DaskEngine

    return DaskEngine(engine)
