"""A fleet of recorded models: engines against a serial loop, workers and a scheduler that are killed, a second run."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from multiprocessing import get_context
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path
from typing import Any, Final

from workloads.fleet_models import make_models

from caffe2_backend import RunError, ValidationOptions, fleet
from caffe2_fleet.job import Limits
from caffe2_fleet.plan import make_plan
from caffe2_fleet.process.server import answer_anything

OPTIONS: Final = ValidationOptions(runtimes=("workspace", "onnxruntime-cpu"))
VARIES: Final = ("seconds", "times", "attempts", "versions")  # from run to run
PARTS: Final = ("serial", "limit", "local", "killed", "scheduler", "unchanged")
PORT: Final = 28786


def main() -> int:
    """Print figures; 1 if models are lost, come twice, or have other results than in one process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20, help="of workers")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=2018)
    parser.add_argument("--folder", type=Path, help="keeps the models and results; default: a temporary folder")
    parser.add_argument("--part", action="append", choices=PARTS, help="repeatable; default: all")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        trial = Trial(args.folder or Path(scratch), args)
        parts = {name: getattr(trial, name) for name in PARTS}
        for name in args.part or PARTS:
            parts[name]()
    return 1 if trial.faults else 0


class Trial:
    """The parts of a trial, which share models and the results of the serial loop."""

    def __init__(self, folder: Path, args: argparse.Namespace) -> None:
        self.folder, self.args, self.faults = folder, args, 0
        self.manifest = folder / "models" / "models.toml"
        if not self.manifest.exists():
            make_models(folder / "models", args.models, args.seed)
        self.expected: dict[str, dict[str, Any]] = {}
        self.serial_seconds = self.limit_seconds = 0.0

    def serial(self) -> None:
        """Run every model in this process, one after another: what the others must give."""
        target = self.folder / "serial"
        shutil.rmtree(target, ignore_errors=True)
        plan = make_plan(fleet.read_manifest(self.manifest), target, OPTIONS, Limits(), "")
        start = time.perf_counter()
        for job in plan.jobs:
            own = {"owner": job.task.owner, "key": job.key, "bytes": job.bytes}
            record = {"page": job.page} | json.loads(json.dumps(answer_anything(job.request()))) | own
            self.expected[job.task.name] = comparable(fleet.ModelResult(job.task.name, **record))
        self.serial_seconds = time.perf_counter() - start
        counts = Counter(result["verdict"] for result in self.expected.values())
        self.show("serial loop", self.serial_seconds, str(dict(counts)))

    def limit(self) -> None:
        """Run the serial loop on a share of the models in several processes at once: what the machine allows."""
        target = self.folder / "limit"
        shutil.rmtree(target, ignore_errors=True)
        jobs = make_plan(fleet.read_manifest(self.manifest), target, OPTIONS, Limits(), "").jobs
        context = get_context("spawn")
        ready, begin = context.Semaphore(0), context.Event()
        shares = [[job.request() for job in jobs[i :: self.args.jobs]] for i in range(self.args.jobs)]
        processes = [context.Process(target=answer_all, args=(share, ready, begin)) for share in shares]
        for process in processes:
            process.start()
        for _ in processes:
            ready.acquire()
        start = time.perf_counter()
        begin.set()
        for process in processes:
            process.join()
        self.limit_seconds = time.perf_counter() - start
        times = f"{self.serial_seconds / self.limit_seconds:.2f} times the serial loop" if self.serial_seconds else ""
        self.show(f"{len(processes)} serial loops at once", self.limit_seconds, times)

    def local(self) -> None:
        """Run in processes of this machine: one, whose overhead counts, and several, whose throughput does."""
        for jobs in (1, self.args.jobs):
            seconds, _, _ = self.run(f"local, {jobs} jobs", "local", jobs)
            if jobs == 1 and self.serial_seconds:
                each = (seconds - self.serial_seconds) / len(self.expected) * 1000
                print(f"{'':30} overhead a model {each:.1f} ms")
            elif self.serial_seconds:
                reached = f", {self.limit_seconds / seconds:.0%} of the limit" if self.limit_seconds else ""
                print(f"{'':30} {self.serial_seconds / seconds:.2f} times the serial loop{reached}")

    def killed(self) -> None:
        """Kill workers of a Dask cluster of this machine; then show what the coordinator's memory does."""
        import dask
        from distributed import Client, LocalCluster

        with (
            dask.config.set({"distributed.deploy.lost-worker-timeout": "10m"}),  # a busy machine restarts them slowly
            LocalCluster(
                n_workers=self.args.jobs, threads_per_worker=1, memory_limit=0, dashboard_address=None
            ) as made,
            Client(made) as client,
        ):
            draw = random.Random(self.args.seed)  # noqa: S311 - whom to kill
            kills = [0]

            def kill() -> None:
                known = made.scheduler.workers  # one that is killed before it joins is not restarted by Dask
                pids = [nanny.pid for nanny in made.workers.values() if nanny.pid and nanny.worker_address in known]
                with suppress(ProcessLookupError, IndexError):
                    os.kill(draw.choice(pids), signal.SIGKILL)
                    kills[0] += 1

            every = max(self.args.models // (2 * self.args.kills + 1), 1)
            _, memory, _ = self.run(
                "dask, workers killed",
                client,
                self.args.jobs,
                lambda n: n % every == 0 and kills[0] < self.args.kills and kill(),
            )
            print(f"{'':30} {kills[0]} workers killed; coordinator {memory[0] >> 20} MiB, then {memory[1] >> 20} MiB")

    def scheduler(self) -> None:
        """Kill a scheduler in the middle, and start it again."""
        engine, label = f"dask://127.0.0.1:{PORT}", "dask, scheduler killed"
        half = self.args.models // 2
        with cluster(self.args.jobs) as processes:
            try:
                self.run(label, engine, 1, lambda n: n == half and processes[0].kill())
            except RunError as error:
                print(f"{'':30} {error}")
            else:
                print(f"{'':30} the killed scheduler was not noticed")
                self.faults += 1
        done = len(list((self.folder / "dask-scheduler-killed" / "results").glob("*.json")))
        with cluster(self.args.jobs):
            _, _, kept = self.run(label, engine, 1, fresh=False)
        print(f"{'':30} {done} models had a record, {kept} were kept")
        self.faults += kept < done

    def unchanged(self) -> None:
        """Run a batch a second time, with nothing changed."""
        target = self.folder / "unchanged"
        for run in ("first run of batch", "second, nothing changed"):
            start = time.perf_counter()
            found = fleet.run_batch(self.manifest, target, OPTIONS, jobs=self.args.jobs)
            self.show(run, time.perf_counter() - start, f"{len(found.results)} models")

    def run(
        self, label: str, engine: Any, jobs: int, after: Callable[[int], object] = bool, *, fresh: bool = True
    ) -> tuple[float, tuple[int, int], int]:
        """Run the fleet on an engine, and compare its results with those of the serial loop.

        Returns:
            The seconds, this process's memory after a tenth of the models and at the end, and how many results of an
            earlier run were kept.
        """
        target = self.folder / label.replace(",", "").replace(" ", "-")
        if fresh:
            shutil.rmtree(target, ignore_errors=True)
        before = {path.name: path.stat().st_mtime_ns for path in (target / "results").glob("*.json")}
        results: list[fleet.ModelResult] = []
        start, memory = time.perf_counter(), [0, 0]
        for result in fleet.run(self.manifest, engine=engine, target=target, options=OPTIONS, jobs=jobs):
            results.append(result)
            after(len(results))
            if len(results) == max(self.args.models // 10, 1):
                memory[0] = own_memory()
        memory[1] = own_memory()
        seconds = time.perf_counter() - start
        self.judge(label, seconds, results)
        kept = sum((target / "results" / name).stat().st_mtime_ns == then for name, then in before.items())
        return seconds, (memory[0], memory[1]), kept

    def judge(self, label: str, seconds: float, results: Sequence[fleet.ModelResult]) -> None:
        """Compare with the serial loop."""
        twice = [name for name, count in Counter(result.model for result in results).items() if count > 1]
        lost = [name for name in self.expected if name not in {result.model for result in results}]
        other = [r for r in results if r.model in self.expected and comparable(r) != self.expected[r.model]]
        retried = sum(result.attempts > 1 for result in results)
        self.show(label, seconds, f"{len(results)} models, {len(lost)} lost, {len(twice)} twice, {len(other)} differ")
        if retried:
            print(f"{'':30} {retried} ran more than once")
        for result in other[:5]:
            known = self.expected[result.model]
            found = comparable(result)
            print(f"{'':30} {result.model}: {[(k, known[k], found[k]) for k in known if known[k] != found[k]]}"[:600])
        self.faults += len(twice) + len(lost) + len(other)

    def show(self, label: str, seconds: float, text: str) -> None:
        """Print a line."""
        print(f"{label:30} {seconds:8.2f} s  {text}", flush=True)


def answer_all(requests: Sequence[dict[str, Any]], ready: Semaphore, begin: Event) -> None:
    """Answer requests, from when all processes are ready."""
    ready.release()
    begin.wait()
    for request in requests:
        answer_anything(request)


def comparable(result: fleet.ModelResult) -> dict[str, Any]:
    """Return what must be the same in every run."""
    return {name: value for name, value in asdict(result).items() if name not in VARIES} | {"notes": len(result.notes)}


def own_memory() -> int:
    """Return the resident memory of this process alone, in bytes."""
    pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def cluster(workers: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start a Dask scheduler and workers, each a command of its own; the scheduler is the first."""
    words = [[sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", str(PORT), "--no-dashboard"]]
    words += [
        [sys.executable, "-m", "dask", "worker", f"tcp://127.0.0.1:{PORT}", "--nthreads", "1", "--no-dashboard",
         "--memory-limit", "0", "--death-timeout", "20"]
    ] * workers  # fmt: skip
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    started = [subprocess.Popen(line, **quiet) for line in words]  # type: ignore[call-overload] # plain options
    try:
        yield started
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
