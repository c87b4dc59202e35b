"""A fleet on a Dask cluster: the results are those of plain processes, and lost workers cost nothing."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from click.testing import CliRunner
from support.paths import MODELS

from caffe2_backend import RunError, ValidationOptions, fleet
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_cli.commands import main
from caffe2_fleet import ModelTask
from caffe2_fleet.engines import clusters
from caffe2_fleet.engines.selection import open_engine
from caffe2_fleet.job import Job
from caffe2_fleet.result import ModelResult

OPTIONS = ValidationOptions(runtimes=("workspace", "onnxruntime-cpu"))
COUNT = 24


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    types = ("Relu", "Exp", "Sigmoid", "NoSuchOperator")
    for i in range(COUNT):
        op = OperatorDef(type=types[i % 4], input=["x"], output=["y"])
        net = NetDef(name=f"n{i}", op=[op], external_input=["x"], external_output=["y"])
        (folder / f"{i:02d}.pb").write_bytes(net.SerializeToString())
    return folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10m"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=":0", resources={"memory": 4e9}
        ) as made,
    ):
        yield made


def comparable(results: list[ModelResult]) -> dict[str, ModelResult]:
    found = {r.model: replace(r, seconds=0, times={}, attempts=1) for r in results}
    assert len(found) == len(results)
    return found


@pytest.mark.slow
def test_workers_that_are_killed_cost_nothing(models: Path, cluster: Any, tmp_path: Path) -> None:
    from distributed import Client

    expected = comparable(list(fleet.run(models, target=tmp_path / "local", options=OPTIONS, jobs=2)))
    found: list[ModelResult] = []
    with Client(cluster) as client:
        for result in fleet.run(models, engine=client, target=tmp_path / "dask", options=OPTIONS):
            found.append(result)
            if len(found) in (3, 9):
                known = cluster.scheduler.workers  # one that is killed before it joins is not restarted by Dask
                os.kill(next(n.pid for n in cluster.workers.values() if n.worker_address in known), signal.SIGKILL)
        assert comparable(found) == expected
        assert len(found) == COUNT
        again = list(fleet.run(models, engine=client, target=tmp_path / "dask", options=OPTIONS))
    assert {r.model: r for r in again} == {r.model: r for r in found}
    assert len(list((tmp_path / "dask" / "results").iterdir())) == COUNT


def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(clusters, "_CONNECT_SECONDS", "1s")
    with pytest.raises(RunError, match=r"scheduler tcp://127\.0\.0\.1:9 does not answer"):
        open_engine("dask://127.0.0.1:9", 1)


@pytest.mark.parametrize(
    ("engine", "missing", "hint"),
    [("dask", "distributed", "caffe2-bridge[fleet]"), ("slurm", "dask_jobqueue", "sbatch")],
)
def test_an_engine_that_is_not_installed(
    engine: str, missing: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "slurm":
        pytest.importorskip("distributed")
    monkeypatch.setitem(sys.modules, missing, None)
    shutil.copytree(MODELS / "lstm", tmp_path / "models" / "lstm")
    result = CliRunner().invoke(
        main, ["batch", str(tmp_path / "models"), "--engine", engine, "-o", str(tmp_path / "out")]
    )
    assert result.exit_code == 2
    assert "not installed" in result.output
    assert hint in result.output.replace("\n", " ")


def listening() -> set[str]:
    """Return the addresses at which this process and its children listen, as /proc spells them."""
    addresses = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                addresses[f"socket:[{fields[9]}]"] = fields[1].partition(":")[0]
    processes = [os.getpid()]
    for process in processes:
        for task in Path(f"/proc/{process}/task").iterdir():
            processes += map(int, (task / "children").read_text(encoding="ascii").split())
    files = [file for process in processes for file in Path(f"/proc/{process}/fd").iterdir()]
    links = {str(file.readlink()) for file in files if file.is_symlink()}
    return {address for link, address in addresses.items() if link in links}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="Linux lists its sockets in /proc")
def test_a_cluster_of_this_machine_serves_its_owner_alone(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    before, environment = listening(), dict(os.environ)
    engine: Any = open_engine("dask", 1)
    try:
        assert listening() - before <= {"0100007F"}  # 127.0.0.1
        assert "0100007F" in listening()
        address = engine._client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        workers = engine._client.scheduler_info(n_workers=-1)["workers"]
        assert all(worker.startswith("tls://127.0.0.1:") for worker in workers)
        for stranger in (
            {"address": address.replace("tls", "tcp")},
            {"address": address, "security": distributed.Security.temporary()},
        ):
            with pytest.raises(OSError, match=r"(?i)reset|timed out|ssl|certificate"):
                distributed.Client(**stranger, timeout="3s", set_as_default=False)
        port = engine._client.scheduler_info()["services"]["dashboard"]
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"http://127.0.0.1:{port}/info/main/workers.html")
        (result,) = engine.run([Job(ModelTask("none", str(tmp_path / "none.pb")), ValidationOptions().to_json())])
        assert result.verdict == "could not run"
    finally:
        engine.close()
    assert os.environ.get("PYTHONSAFEPATH") == environment.get("PYTHONSAFEPATH")


def test_a_cluster_that_cannot_be_encrypted_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(RunError, match=r"cannot be encrypted: .*cryptography.*caffe2-bridge\[fleet\]"):
        open_engine("dask", 1)


def test_the_scheme_of_a_scheduler_is_that_of_the_configuration_of_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    dask = pytest.importorskip("dask")
    monkeypatch.setattr(clusters, "_connected", lambda _, address: address)
    assert str(open_engine("dask://127.0.0.1:9", 1)) == "tcp://127.0.0.1:9"
    with dask.config.set({"distributed.comm.default-scheme": "tls"}):
        assert str(open_engine("dask://127.0.0.1:9", 1)) == "tls://127.0.0.1:9"


def test_workers_under_slurm_are_isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    prologues = []

    class Cluster(distributed.LocalCluster):  # type: ignore[misc,name-defined] # found when the test runs
        def __init__(self, job_script_prologue: list[str]) -> None:
            prologues.append(job_script_prologue)
            super().__init__(n_workers=0, processes=False, dashboard_address="127.0.0.1:0")

        def scale(self, jobs: int) -> None:
            prologues.append([str(jobs)])

    monkeypatch.setitem(sys.modules, "dask_jobqueue", SimpleNamespace(SLURMCluster=Cluster))
    with dask.config.set({"jobqueue.slurm.job-script-prologue": ["module load python"]}):
        open_engine("slurm", 3).close()
    assert prologues[:2] == [["module load python", "export PYTHONSAFEPATH=1"], ["3"]]
