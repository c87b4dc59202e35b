"""The command line ``scripts/conformance``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, get_args

import click

from caffe2_frontend import supported_operators
from conformance import by_runtime, nodes, report
from conformance.check import RecurrentForm, Result, Task
from conformance.corpus import CaseRef, find_cases, is_named
from conformance.executors import EXECUTORS, NET_EXECUTORS
from conformance.pool import Pool
from conformance.stored import stored_forms

GOLDEN: Final = Path(__file__).resolve().parents[1] / "golden"
BASELINE: Final = GOLDEN / "baseline.json"
# The cases that pass, by executor.
BASELINES: Final = {"onnxruntime": BASELINE, "pytorch": GOLDEN.parent / "pytorch" / "baseline.json"}
RECURRENT_FORMS: Final = get_args(RecurrentForm)


def unmatched(refs: Sequence[CaseRef], groups: Sequence[str]) -> list[str]:
    """Return the names of ``groups`` that match none of the cases."""
    return [name for name in groups if not any(is_named(ref, name) for ref in refs)]


def select(
    refs: Sequence[CaseRef], groups: Sequence[str], *, gradients: bool, sample: int, executor: str = "onnxruntime"
) -> list[CaseRef]:
    """Return the cases to check: of the groups asked for (all where none is), every ``sample``-th of each group.

    Without ``gradients``, cases with a gradient operator that has no converter are left out: PyTorch has one for none.
    """
    from caffe2_frontend.ops import converters

    converted = converters().keys() if executor != "pytorch" else set()
    known: dict[str, int] = {}
    chosen = []
    for ref in refs:
        if not gradients and ref.gradients - converted:
            continue
        if groups and not any(is_named(ref, name) for name in groups):
            continue
        known[ref.group] = known.get(ref.group, -1) + 1
        if known[ref.group] % sample == 0:
            chosen.append(ref)
    return chosen


def make_tasks(
    refs: Sequence[CaseRef], executor: str, forms: Sequence[RecurrentForm], opset: int | None = None
) -> list[Task]:
    """Return one task a case; models, which hold the recurrent nets, once for each recurrent form."""
    return [Task(ref, executor, form, opset) for form in forms for ref in refs if form == forms[0] or ref.kind != "op"]


def with_more_known(tasks: Sequence[Task], *, stored: bool, sizes: bool) -> list[Task]:
    """Return the tasks with more told to the conversion: inputs stored in the init net, or the sizes of all."""
    told = [replace(task, with_sizes=True) for task in tasks] if sizes else list(tasks)
    return [replace(task, stored=names) for task in told for names in stored_forms(task.ref)] if stored else told


@click.command()
@click.argument("corpus", type=click.Path(exists=True, path_type=Path), default=GOLDEN, metavar="[DIR]")
@click.option("--types", default="", help="Only these operator types, net files or models, comma-separated.")
@click.option(
    "--changed", metavar="COMMIT", is_flag=False, flag_value="main",
    help="Only operators whose code differs from a commit; main where none is named.",
)  # fmt: skip
@click.option("--executor", type=click.Choice((*EXECUTORS, *NET_EXECUTORS)), default="onnxruntime", show_default=True)
@click.option(
    "--recurrent",
    type=click.Choice(RECURRENT_FORMS),
    multiple=True,
    default=("auto",),
    show_default=True,
    help="Form of recurrent nets; may be repeated.",
)
@click.option("--opset", type=int, help="The opset of the exports; their default where it is not given.")
@click.option("--gradients", is_flag=True, help="Include gradient operators that have no converter, and nets of them.")
@click.option("--stored", is_flag=True, help="With inputs stored in the init net: each alone, and all but one.")
@click.option("--sizes", is_flag=True, help="With the sizes of all inputs known.")
@click.option("--sample", type=click.IntRange(1), default=1, metavar="N", help="Only every Nth case of each type.")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, help="Worker processes.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write every case's result here.")
@click.option("--coverage", type=click.Path(path_type=Path), help="Write the coverage page here.")
@click.option("--write-baseline", is_flag=True, help="Record the passing cases as those that must pass from now on.")
@click.option("--write-nodes", is_flag=True, help="Count the nodes of exports, and pin those of each operator.")
@click.option("--by-runtime", "stores", is_flag=True, help="Store the results of the executor for docs/runtimes.md.")
@click.option("--show", metavar="NAME", help="Print cases and what they are converted to: ops/Relu, or ops/Relu/003.")
@click.option("--verbose", is_flag=True, help="Say every finding and give tracebacks in full.")
def main(
    corpus: Path,
    types: str,
    changed: str | None,
    executor: str,
    recurrent: tuple[RecurrentForm, ...],
    opset: int | None,
    gradients: bool,
    stored: bool,
    sizes: bool,
    sample: int,
    jobs: int,
    json_file: Path | None,
    coverage: Path | None,
    write_baseline: bool,
    write_nodes: bool,
    stores: bool,
    show: str | None,
    verbose: bool,
) -> None:
    """Convert every recorded case in DIR (default: the golden corpus), run it, and compare it with real Caffe2.

    Exit status: 0 where nothing is wrong and nothing crashed, 1 where something is, 2 for wrong usage.
    """
    if show is not None:
        _show(corpus, show)
        return
    groups = [name for name in types.split(",") if name] + _groups_changed_since(changed)
    partial = bool(groups) or stored or sizes or sample > 1 or corpus.resolve() != GOLDEN
    other = partial or opset or executor not in BASELINES or recurrent != ("auto",) or gradients
    if other and (write_baseline or write_nodes):
        raise click.UsageError(
            "the baseline and the nodes are of a whole run over the golden corpus with default options"
        )
    refs = select(find_cases(corpus), groups, gradients=gradients, sample=sample, executor=executor)
    if missing := unmatched(refs, groups):
        hint = "" if gradients else "; --gradients includes gradient operators that have no converter"
        raise click.UsageError(f"{corpus} has no cases of {', '.join(missing)}{hint}")
    if not refs:
        raise click.UsageError(f"{corpus} has no cases")
    if write_nodes:
        click.echo(nodes.write_nodes(refs))
        return
    tasks = with_more_known(make_tasks(refs, executor, recurrent, opset), stored=stored, sizes=sizes)
    results = _run(tasks, jobs)
    click.echo(report.table(results))
    if text := report.details(results, verbose=verbose):
        click.echo("\n" + text)
    _write_reports(results, json_file, coverage)
    if stores:
        by_runtime.store(executor, results)
        by_runtime.write_page()
    if write_baseline:
        before = report.read_baseline(BASELINES[executor])
        now = report.write_baseline(BASELINES[executor], results)
        click.echo(f"\nbaseline: {len(now)} cases, {len(now - before)} new, {len(before - now)} gone")
        for lost in sorted(before - now):
            click.echo(f"  gone: {lost}")
    sys.exit(1 if report.has_failures(results) else 0)


def _groups_changed_since(commit: str | None) -> list[str]:
    """Return the operator types with cases whose conversion differs from a commit's; none without a commit."""
    from conformance.changed import changed_operators

    if commit is None:
        return []
    try:
        groups = sorted(changed_operators(commit) & {ref.group for ref in find_cases(GOLDEN)})
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    click.echo(f"{len(groups)} operator types are converted by other code than that of {commit}")
    if not groups:
        sys.exit(0)
    return groups


def _write_reports(results: Sequence[Result], json_file: Path | None, coverage: Path | None) -> None:
    """Write the results as JSON, and the coverage page, where they are asked for."""
    if json_file:
        json_file.write_text(json.dumps(report.as_json(results), indent=1) + "\n", encoding="utf-8")
    if coverage:
        in_pytorch = report.read_baseline(BASELINES["pytorch"])
        converting = {name for names in supported_operators().values() for name in names}
        coverage.write_text(report.coverage_page(results, in_pytorch, converting), encoding="utf-8")


def _show(corpus: Path, name: str) -> None:
    from conformance.show import show

    refs = [ref for ref in find_cases(corpus) if is_named(ref, name)]
    if not refs:
        raise click.UsageError(f"{corpus} has no case {name!r}: name one as in the results, such as ops/Relu/003")
    for text in show(refs):
        click.echo(text)


def _run(tasks: Sequence[Task], jobs: int) -> list[Result]:
    """Return every task's result, in the tasks' order, with a count on a terminal while they run."""
    found: dict[str, Result] = {}
    with Pool(min(jobs, len(tasks))) as pool:
        for result in pool.run(tasks):
            found[result.task.id] = result
            if sys.stderr.isatty():
                click.echo(f"\r{len(found)}/{len(tasks)}", nl=False, err=True)
    if sys.stderr.isatty():
        click.echo("\r", nl=False, err=True)
    return [found[task.id] for task in tasks]


if __name__ == "__main__":
    main()
