"""The command line ``scripts/fuzz exact``."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
from conformance.oracle import OracleError, required_oracle
from conformance.pool import WorkerPool

from fuzz.exact.drawing.draw import chosen_groups
from fuzz.exact.lane import Batch, Judged, Lane, lost
from fuzz.exact.spec import spec
from fuzz.exact.tally import Tally
from fuzz.exact.verdict import FAULTS, Outcome, Verdict

# Of a batch whose process does not answer: longer than a worker itself takes over one (fuzz.exact.lane).
_BATCH_SECONDS = 1800.0


@click.command("exact")
@click.option("--minutes", default=1.0, help="How long to draw cases.")
@click.option("--seed", default=0, help="What determines the cases.")
@click.option("--types", default="", help="Operator types, recorded nets or program/KIND, separated by commas.")
@click.option("--batch", "number", type=int, help="Judge this batch alone, and print every case of it.")
@click.option("--first", default=0, help="The number of the first batch.")
@click.option("--workers", default=0, help="How many processes judge cases; default one for each CPU.")
@click.option(
    "-o", "folder", type=click.Path(file_okay=False, path_type=Path), help="Where specs of the faults are written."
)
@click.option("--tally", type=click.Path(dir_okay=False, path_type=Path), help="Add the counts to this file.")
@click.option("--imports", is_flag=True, help="Mutate the exports, import them, and compare with onnxruntime.")
@click.option("--all-reasons", is_flag=True, help="List why cases are refused or computed, not faults alone.")
def main(
    minutes: float,
    seed: int,
    types: str,
    number: int | None,
    first: int,
    workers: int,
    folder: Path | None,
    tally: Path | None,
    *,
    imports: bool,
    all_reasons: bool,
) -> None:
    """Compare the conversion with real Caffe2 on operators and small nets drawn at random.

    A fault is a case inside of the domain of its operators that computes something else, fails to run or crashes where
    Caffe2 runs, or that the conversion computes although Caffe2's schema refuses it; and any case that ends with an
    exception that is not the project's. Ends with status 1 if there is one.
    """
    names = tuple(filter(None, types.split(",")))
    try:
        required_oracle()
        chosen_groups(names)
    except (OracleError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    results = Results(folder)
    counts = None if tally is None else Tally(tally)
    numbers = itertools.count(first) if number is None else [number]
    deadline = time.monotonic() + 60 * minutes
    batches = (
        Batch(seed, each, names, imports=imports)
        for each in numbers
        if number is not None or time.monotonic() < deadline
    )
    with WorkerPool(workers or os.cpu_count() or 1, Lane, lost, lambda batch: batch.number, _BATCH_SECONDS) as pool:
        for judged in pool.run(_until(deadline, batches, once=number is not None)):
            results.add(judged)
            if counts is not None:
                counts.add(judged)
            if number is not None:
                _print_cases(judged)
    results.show(all_reasons=all_reasons)
    for line in () if counts is None else counts.lines():
        click.echo(line)
    sys.exit(1 if results.has_faults else 0)


def _until(deadline: float, batches: Iterator[Batch], *, once: bool) -> Iterator[Batch]:
    for batch in batches:
        yield batch
        if not once and time.monotonic() > deadline:
            return


def _print_cases(judged: Judged) -> None:
    for verdict in judged.verdicts:
        drawn = verdict.drawn
        click.echo(f"{verdict.outcome}: {'+'.join(drawn.types) if drawn else ''}")
        for line in (*(drawn.trail if drawn else ()), *verdict.detail.splitlines()[:8]):
            click.echo(f"    {line}")


class Results:
    """What the cases so far came to; ``folder`` gets a spec of the first case of each kind of fault."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self.outcomes: Counter[Outcome] = Counter()
        self.nets = 0
        self._kinds: Counter[str] = Counter()
        self._first: dict[str, tuple[Batch, Verdict]] = {}

    @property
    def has_faults(self) -> bool:
        """Whether any case is a fault."""
        return any(self.outcomes[outcome] for outcome in FAULTS)

    def add(self, judged: Judged) -> None:
        """Count the cases of a batch."""
        self.nets += judged.nets
        for verdict in judged.verdicts:
            self.outcomes[verdict.outcome] += 1
            self._kinds[verdict.key] += 1
            if verdict.key not in self._first:
                self._first[verdict.key] = (judged.batch, verdict)
                if self._folder is not None and verdict.outcome in FAULTS and verdict.drawn is not None:
                    self._folder.mkdir(parents=True, exist_ok=True)
                    name = f"{verdict.drawn.types[0]}_{judged.batch.seed}_{judged.batch.number}_{len(self._first)}.py"
                    (self._folder / name).write_text(spec(verdict, _command(judged.batch)))

    def show(self, *, all_reasons: bool) -> None:
        """Print the kinds of faults, most frequent first, then how many cases ended how."""
        for key, count in self._kinds.most_common():
            batch, verdict = self._first[key]
            if verdict.outcome in FAULTS or (all_reasons and verdict.outcome is not Outcome.EQUAL):
                click.echo(f"{count} x {key}\n    {_command(batch)}\n    {verdict.detail.splitlines()[:3]}")
        for outcome in Outcome:
            click.echo(f"{self.outcomes[outcome]:8} {outcome}")
        click.echo(f"{self.outcomes.total():8} cases of {self.nets} nets")


def _command(batch: Batch) -> str:
    types = f" --types {','.join(batch.types)}" if batch.types else ""
    imports = " --imports" if batch.imports else ""
    return f"scripts/fuzz exact --seed {batch.seed} --batch {batch.number}{types}{imports}"
