"""The command line ``scripts/caffe2-tests``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from conformance.oracle import find_oracle

from caffe2_compat.hook.locate import locate
from caffe2_tests.modules import find_modules
from caffe2_tests.recorded import RECORDED, read_passed, write_passed
from caffe2_tests.run import Limits, Outcome, run_module
from caffe2_tests.table import ModuleResult, read_results, summary_line, total_line, write_page, write_results


def copy_of(real: Path | None, given: Path | None) -> Path:
    """Return the folder with Caffe2's Python files: the given one, that of real Caffe2, or one on the search path."""
    return locate(given or (real.parents[1] if real is not None else None)).root


def run_all(
    modules: Sequence[str], copy: Path, real: Path | None, limits: Limits, select: str, jobs: int
) -> Iterator[tuple[str, dict[str, Outcome]]]:
    """Run modules, several at a time, and yield the outcomes of each in order."""
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(run_module, name, copy, real=real, limits=limits, select=select) for name in modules]
        for module, future in zip(modules, futures, strict=True):
            yield module, future.result()


def _in_order(
    modules: Sequence[str], earlier: Mapping[str, dict[str, Outcome]], run: Iterator[tuple[str, dict[str, Outcome]]]
) -> Iterator[tuple[str, dict[str, Outcome]]]:
    """Yield the outcomes of modules in order, those of an earlier run among them."""
    for module in modules:
        yield (module, earlier[module]) if module in earlier else next(run)


def record(modules: Sequence[str], copy: Path, real: Path, limits: Limits, jobs: int) -> None:
    """Run modules in real Caffe2, and keep the names of the tests that pass."""
    passed = read_passed()
    for module, outcomes in run_all(modules, copy, real, limits, "", jobs):
        passed[module] = [name for name, outcome in outcomes.items() if outcome.outcome == "passed"]
        click.echo(f"{module:50} {len(passed[module]):4} passed of {len(outcomes)}")
        write_passed(passed)
    click.echo(f"{RECORDED}: {sum(map(len, passed.values()))} tests of {len(passed)} modules")


@click.command()
@click.argument("modules", nargs=-1)
@click.option("--caffe2", "given", type=click.Path(path_type=Path), help="The copy; default: real Caffe2's.")
@click.option("--record-real", is_flag=True, help="Record which tests pass in real Caffe2, instead.")
@click.option("--operators", is_flag=True, help="The modules of operator_test in addition.")
@click.option("--select", "-k", default="", help="Only tests that this pytest expression selects.")
@click.option("--module-seconds", default=300, show_default=True, help="The limit of a module.")
@click.option("--test-seconds", default=60, show_default=True, help="The limit of a test.")
@click.option("--jobs", default=2, show_default=True, help="Modules that run at a time.")
@click.option("--failures", is_flag=True, help="Print the reason of each failure.")
@click.option("--write-docs", is_flag=True, help="Write the table in docs/caffe2_python.md.")
@click.option("--results", type=click.Path(path_type=Path), help="Write all outcomes to a JSON file.")
@click.option(
    "--resume",
    type=click.Path(path_type=Path, exists=True),
    multiple=True,
    help="Do not run the modules whose outcomes this file has; the last file counts.",
)
def main(
    modules: tuple[str, ...], given: Path | None, record_real: bool, operators: bool, select: str,
    module_seconds: int, test_seconds: int, jobs: int, failures: bool, write_docs: bool, results: Path | None,
    resume: tuple[Path, ...],
) -> None:  # fmt: skip
    """Run Caffe2's own test MODULES (all, by default) on this project's runtime.

    A module is named as under caffe2.python, as in optimizer_test or modeling.initializers_test. For each, prints how
    many of the tests that pass in real Caffe2 pass here.
    """
    real = find_oracle()
    copy = copy_of(real, given)
    limits = Limits(module_seconds, test_seconds)
    chosen = modules or tuple(find_modules(copy, operators=operators))
    if record_real:
        if real is None:
            raise click.UsageError("real Caffe2 is not installed; scripts/oracle installs it")
        record(chosen, copy, real, limits, jobs)
        return
    passed = read_passed()
    found: list[ModuleResult] = []
    earlier = {module: outcomes for path in resume for module, outcomes in read_results(path).items()}
    run = run_all([module for module in chosen if module not in earlier], copy, None, limits, select, jobs)
    for module, outcomes in _in_order(chosen, earlier, run):
        result = ModuleResult(module, passed.get(module, []), outcomes)
        found.append(result)
        click.echo(summary_line(result))
        if failures:
            for name, reason in sorted(result.failed.items()):
                click.echo(f"    {name}: {reason}")
        sys.stdout.flush()
        if results is not None:
            write_results(found, results)
    click.echo(total_line(found))
    if write_docs:
        write_page(found)


if __name__ == "__main__":
    main()
