"""The command line ``scripts/fuzz robust``."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from fuzz.robust.draw import draw_case
from fuzz.robust.ending import STATUS, ended_by_signals
from fuzz.robust.inputs import Input
from fuzz.robust.monitor import Monitor, Violation
from fuzz.robust.outcome import Outcome, Status
from fuzz.robust.progress import Counts
from fuzz.robust.seeds import Seeds, write_seeds
from fuzz.robust.shrink import shrink
from fuzz.robust.tally import add_to_tally
from fuzz.robust.writing import disturb_saves

CASES: Final = Path(__file__).resolve().parents[1] / "cases"
_BATCH: Final = 100  # inputs that a worker is asked for at once
_SHRINKING: Final = 20.0  # seconds for a fault; hangs take longer a try


@dataclass
class Found:
    """What a run found: how many calls ended how, by kind of input and door, and the first input for each fault."""

    counts: Counts = field(default_factory=Counter)
    faults: dict[str, Violation] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, violation: Violation) -> bool:
        """Count a violation; return whether it is one that was not found before."""
        with self.lock:
            signature = f"{violation.kind}: {violation.outcome.signature}"
            self.times[signature] += 1
            if signature in self.faults:
                return False
            self.faults[signature] = violation
            return True


@click.command()
@click.option("--minutes", type=float, default=1.0, show_default=True, help="How long to search.")
@click.option("--seed", type=int, default=None, help="Draw the inputs that this number stands for; default: the time.")
@click.option("--first", type=int, default=0, help="The index of the first input.")
@click.option("--cases", type=int, default=None, help="Stop after so many inputs.")
@click.option("--kills", type=int, default=20, show_default=True, help="Kill so many saves, too.")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, help="Processes.")
@click.option(
    "--seeds",
    "folder",
    type=click.Path(path_type=Path),
    help="A folder for the well-formed inputs: made there once, and used again.",
)
@click.option(
    "--json", "tally", type=click.Path(path_type=Path), help="A file whose counts of calls and saves are added to."
)
@click.option("--keep", type=click.Path(path_type=Path), help="Write an input for each fault to this folder, shrunk.")
def main(
    minutes: float,
    seed: int | None,
    first: int,
    cases: int | None,
    kills: int,
    jobs: int,
    folder: Path | None,
    tally: Path | None,
    keep: Path | None,
) -> None:
    """Call every door with malformed input; report what the contract of docs/testing.md forbids.

    Exit status 1 where something is found. Internal errors, which the project reports as such, are listed alone.
    Ctrl-C and SIGTERM end the search: what it found until then is written, inputs as they were drawn.
    """
    seed = int(time.time()) if seed is None else seed
    click.echo(f"seed {seed}")
    with tempfile.TemporaryDirectory() as made, ended_by_signals() as ended:
        seeds = folder or Path(made)
        if not any(seeds.glob("*")):
            write_seeds(seeds, seed)
        found = search(seeds, seed, time.monotonic() + 60 * minutes, jobs, _batches(first, cases), ended)
        click.echo("\n".join(table(found)))
        if keep is not None:
            _keep(found, seeds, seed, keep, ended)
        saves, lost = disturb_saves(kills, -(-kills // 5), seed, ended)
    click.echo("\n".join(table_of_saves(saves, lost)))
    if tally is not None:
        add_to_tally(tally, found.counts, saves, Counter([*found.times.elements(), *lost]))
    broken = lost or any(fault.outcome.status is not Status.INTERNAL for fault in found.faults.values())
    sys.exit(1 if broken else STATUS if ended.is_set() else 0)


def table_of_saves(counts: Counter[tuple[str, str]], faults: list[str]) -> Iterator[str]:
    """How many saves of each format were disturbed how, and what was lost or mixed."""
    kinds = list(dict.fromkeys(kind for _, kind in counts))
    forms = list(dict.fromkeys(form for form, _ in counts))
    if counts:
        yield " ".join([f"{'':24}", *(f"{kind:>16}" for kind in kinds)])
    for form in forms:
        yield " ".join([f"{form:24}", *(f"{counts[form, kind]:16}" for kind in kinds)])
    yield f"{counts.total()} saves, {len(faults)} lost or mixed"
    for fault, count in Counter(faults).most_common(20):
        yield f"{count:6} {fault}"


def _batches(first: int, cases: int | None) -> Iterator[range]:
    start = first
    while cases is None or start < first + cases:
        stop = start + _BATCH if cases is None else min(start + _BATCH, first + cases)
        yield range(start, stop)
        start = stop


def search(
    seeds: Path, seed: int, deadline: float, jobs: int, batches: Iterator[range], ended: threading.Event
) -> Found:
    """Call doors until the deadline, until there are no more inputs, or until the run is ended."""
    found = Found()

    def work(_: int) -> None:
        with Monitor(seeds) as monitor:
            while time.monotonic() < deadline and not ended.is_set():
                with found.lock:
                    batch = next(batches, None)
                if batch is None:
                    break
                for violation in monitor.drawn(seed, batch):
                    if violation.outcome.is_violation and found.add(violation):
                        outcome, where = violation.outcome, f"{violation.kind} at {violation.door}"
                        click.echo(f"{violation.index}: {where}: {outcome.signature}: {outcome.detail[:200]}")
            with found.lock:
                found.counts.update(monitor.counts)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(work, range(jobs)))
    return found


def table(found: Found) -> Iterator[str]:
    """How many inputs of each kind ended how, and how often each fault was seen."""
    counts = Counter[tuple[str, Status]]()
    for (kind, _, status), count in found.counts.items():
        counts[kind, status] += count
    kinds = sorted({kind for kind, _ in counts})
    statuses = [status for status in Status if any(counts[kind, status] for kind in kinds)]
    yield " ".join(["kind    ", *(f"{status:>14}" for status in statuses)])
    for kind in kinds:
        yield " ".join([f"{kind:8}", *(f"{counts[kind, status]:14}" for status in statuses)])
    yield f"{counts.total()} calls, {len(found.faults)} faults"
    for signature, count in found.times.most_common():
        fault = found.faults[signature]
        yield f"{count:6} {signature} (first: {fault.index}, {fault.door})"


def _keep(found: Found, seeds: Path, seed: int, folder: Path, ended: threading.Event) -> None:
    drawn = Seeds(seeds)
    with Monitor(seeds) as monitor:
        for fault in found.faults.values():
            case, door = draw_case(drawn, seed, fault.index)

            def fails(smaller: Input, door: str = door, outcome: Outcome = fault.outcome) -> bool:
                return not ended.is_set() and monitor.given(smaller, door).signature == outcome.signature

            if fails(case):
                case = shrink(case, fails, _SHRINKING)
            keep_case(folder, case, door)
            click.echo(f"{fault.outcome.signature}: {case.size} bytes, {case.kind}-{case.digest}")


def keep_case(folder: Path, case: Input, door: str) -> None:
    """Write an input where the replay finds it: ``KIND-DIGEST/DOOR/FILES``."""
    case.write(folder / f"{case.kind}-{case.digest}" / door)
