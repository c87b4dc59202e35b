"""A fleet on a Dask cluster: the results are those of plain processes, and lost workers cost nothing."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.paths import MODELS

from caffe2_backend import RunError, ValidationOptions, fleet
from caffe2_backend.cli.commands import main
from caffe2_backend.fleet.engines import clusters
from caffe2_backend.fleet.engines.selection import open_engine
from caffe2_backend.fleet.result import ModelResult
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

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
