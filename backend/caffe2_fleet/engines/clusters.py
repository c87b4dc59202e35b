"""Dask clusters: connecting to one, and starting one on this machine or under Slurm."""

from __future__ import annotations

import importlib
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any, Final

from caffe2_backend.child_python import SAFE_PATH, isolated_children
from caffe2_bridge.diagnostics import RunError
from caffe2_fleet.engines.base import Engine
from caffe2_fleet.process.memory import available_bytes

_CONNECT_SECONDS: Final = "30s"
_WORKER_SECONDS: Final = 120.0
_USED: Final = 0.9  # of the memory that is available
_DEATHS: Final = 1  # lost workers that are forgiven: after the second one a model runs alone
_LOOPBACK: Final = "127.0.0.1"
# Settings of the clusters of this machine.
_SETTINGS: Final = {
    # A killed worker of a busy machine takes long to start again; by default Dask gives it up after 15 seconds.
    "distributed.deploy.lost-worker-timeout": "10m",
    "distributed.scheduler.allowed-failures": _DEATHS,
    # Pages would show any user of the machine what runs.
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
_PROLOGUE: Final = "jobqueue.slurm.job-script-prologue"


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
    import dask

    scheme = dask.config.get("distributed.comm.default-scheme")  # tcp, or tls where Dask's configuration says so
    return _connected(distributed, f"{scheme}://{engine.removeprefix('dask://')}")


def _connected(distributed: Any, address: str) -> Engine:
    try:
        client = distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, TimeoutError) as error:  # TypeError: tls without certificates
        raise RunError(f"the Dask scheduler {address} does not answer: {error}") from None
    try:
        client.wait_for_workers(1, timeout=_WORKER_SECONDS)
    except TimeoutError:
        client.close()
        raise RunError(
            f"the Dask scheduler {address} has no workers: start some with `dask worker {address}`"
        ) from None
    return _engine(client, ExitStack())


def _local_cluster(distributed: Any, jobs: int) -> Engine:
    """Start workers of this machine, which share its memory, and which no other user of the machine can give tasks to.

    All parts listen on loopback alone, and to those who have the key, which is in the memory of the processes.
    """
    import dask

    with ExitStack() as opened:
        opened.enter_context(dask.config.set(_SETTINGS))
        opened.enter_context(isolated_children())
        folder = opened.enter_context(TemporaryDirectory(prefix="caffe2-bridge-"))  # workers import modules from it
        cluster = opened.enter_context(
            distributed.LocalCluster(
                n_workers=jobs, threads_per_worker=1, memory_limit=0, local_directory=folder,
                resources={"memory": int(available_bytes() * _USED) // jobs}, host=_LOOPBACK,
                dashboard_address=f"{_LOOPBACK}:0", scheduler_kwargs={"dashboard": False},
                security=_temporary_key(distributed),
            )
        )  # fmt: skip
        return _engine(distributed.Client(cluster, set_as_default=False), opened)


def _temporary_key(distributed: Any) -> Any:
    """Return a key and a certificate for TLS in both directions. Raises RunError if they cannot be made."""
    try:
        return distributed.Security.temporary()
    except ImportError as error:
        raise RunError(
            f"the connections of a Dask cluster cannot be encrypted: {error}: "
            "install what is missing with `pip install 'caffe2-bridge[fleet]'`, or use --engine local"
        ) from None


def _slurm_cluster(distributed: Any, jobs: int) -> Engine:
    """Return workers that Slurm starts, as dask-jobqueue's configuration says."""
    import dask

    try:
        jobqueue = importlib.import_module("dask_jobqueue")
    except ImportError:
        raise RunError(
            "dask-jobqueue is not installed: install it with `pip install dask-jobqueue`, or start the scheduler and "
            "the workers with sbatch and use --engine dask://HOST:PORT (docs/fleets.md)"
        ) from None
    prologue = [*(dask.config.get(_PROLOGUE, None) or ()), f"export {SAFE_PATH}=1"]  # it starts workers with -m
    with ExitStack() as opened:
        cluster = opened.enter_context(jobqueue.SLURMCluster(job_script_prologue=prologue))
        cluster.scale(jobs=jobs)
        return _engine(distributed.Client(cluster, set_as_default=False), opened)


def _engine(client: Any, opened: ExitStack) -> Engine:
    """Return the engine of a client; it closes the client, and what was opened for it."""
    from caffe2_fleet.engines.dask import DaskEngine

    opened.enter_context(client)
    return DaskEngine(client, opened.pop_all().close)
