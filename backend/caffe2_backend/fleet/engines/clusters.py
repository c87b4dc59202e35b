"""Dask clusters: connecting to one, and starting one on this machine or under Slurm."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from typing import Any, Final

from caffe2_backend.fleet.engines.base import Engine
from caffe2_backend.fleet.process.memory import available_bytes
from caffe2_bridge.diagnostics import RunError

_CONNECT_SECONDS: Final = "30s"
_WORKER_SECONDS: Final = 120.0
_USED: Final = 0.9  # of the memory that is available
# A killed worker of a busy machine takes long to start again; by default Dask gives it up after 15 seconds.
_RESTART: Final = {"distributed.deploy.lost-worker-timeout": "10m"}
_DEATHS: Final = 1  # lost workers that are forgiven: after the second one a model runs alone


def open_cluster(engine: str, jobs: int) -> Engine:
    """Open ``dask``, ``dask://HOST:PORT`` or ``slurm``. Raises RunError if it is not installed or does not answer."""
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise RunError(
            "Dask is not installed: install it with `pip install 'caffe2-bridge[fleet]'`, or use --engine local"
        ) from None
    if engine == "dask":
        return _local_cluster(distributed, jobs)
    if engine == "slurm":
        return _slurm_cluster(distributed, jobs)
    return _connected(distributed, f"tcp://{engine.removeprefix('dask://')}")


def _connected(distributed: Any, address: str) -> Engine:
    try:
        client = distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise RunError(f"the Dask scheduler {address} does not answer: {error}") from None
    try:
        client.wait_for_workers(1, timeout=_WORKER_SECONDS)
    except TimeoutError:
        client.close()
        raise RunError(
            f"the Dask scheduler {address} has no workers: start some with `dask worker {address}`"
        ) from None
    return _engine(client)


def _local_cluster(distributed: Any, jobs: int) -> Engine:
    """Workers of this machine, which share its memory. Nothing listens beyond loopback."""
    import dask

    share = int(available_bytes() * _USED) // jobs
    restart = dask.config.set(_RESTART)  # until the cluster is closed
    with dask.config.set({"distributed.scheduler.allowed-failures": _DEATHS}):
        cluster = distributed.LocalCluster(
            n_workers=jobs, threads_per_worker=1, memory_limit=0, resources={"memory": share},
            host="127.0.0.1", dashboard_address=":0",
        )  # fmt: skip
    return _engine(distributed.Client(cluster, set_as_default=False), cluster, restart)


def _slurm_cluster(distributed: Any, jobs: int) -> Engine:
    """Workers that Slurm starts, as dask-jobqueue's configuration says."""
    try:
        jobqueue = importlib.import_module("dask_jobqueue")
    except ImportError:
        raise RunError(
            "dask-jobqueue is not installed: install it with `pip install dask-jobqueue`, or start the scheduler and "
            "the workers with sbatch and use --engine dask://HOST:PORT (docs/fleets.md)"
        ) from None
    cluster = jobqueue.SLURMCluster()
    cluster.scale(jobs=jobs)
    return _engine(distributed.Client(cluster, set_as_default=False), cluster)


def _engine(client: Any, cluster: Any = None, settings: AbstractContextManager[Any] | None = None) -> Engine:
    """The engine of a client, with what is closed after it: a cluster, and settings of Dask."""
    from caffe2_backend.fleet.engines.dask import DaskEngine

    def close() -> None:
        client.close()
        if cluster is not None:
            cluster.close()
        if settings is not None:
            settings.__exit__(None, None, None)

    return DaskEngine(client, close)
