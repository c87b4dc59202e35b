"""Run ONNX's backend test suite: scripts/onnx-suite --help."""

from __future__ import annotations

import json
from pathlib import Path

import click

from onnx_suite.cases import SUITES, Case, folder_cases, installed_cases
from onnx_suite.runtime import run_backend, run_original
from onnx_suite.strict import run_strict
from onnx_suite.variants import variants

HERE = Path(__file__).parent


@click.command()
@click.option("--strict", is_flag=True, help="With Caffe2's operators alone, run in real Caffe2.")
@click.option("--suite", type=click.Path(exists=True, path_type=Path), help="A data folder of another onnx's suite.")
@click.option("--only", default="", help="Run the tests that have this in their names.")
@click.option("--stored", is_flag=True, help="With inputs stored as initializers: each alone, and all but the first.")
@click.option("--symbolic", is_flag=True, help="Without the sizes of the dims of inputs and outputs.")
@click.option("--json", "as_json", is_flag=True, help="Print every outcome as JSON.")
@click.option("--record", is_flag=True, help="Write the list of what is expected to pass.")
def main(
    strict: bool, suite: Path | None, only: str, stored: bool, symbolic: bool, as_json: bool, record: bool
) -> None:
    """Run the suite and print how many tests pass."""
    cases = [case for case in _cases(suite) if only in case.name]
    if not cases:
        raise click.UsageError(f"no test of the suite has {only!r} in its name")
    if record and (only or stored or symbolic):
        raise click.UsageError("--record writes the list of the whole suite: leave out --only, --stored and --symbolic")
    if stored or symbolic:
        cases = list(variants(cases, stored=stored, symbolic=symbolic))
    if strict:
        outcome = run_strict(cases)
        name = "expected_strict_1_8.txt" if suite else "expected_strict.txt"
    else:
        original = run_original(cases)
        outcome = run_backend(case for case in cases if not original[case.name])
        name = "expected_runtime.txt"
    passed = sorted(test for test, why in outcome.items() if not why)
    if record:
        (HERE / name).write_text("".join(f"{test}\n" for test in passed))
    if as_json:
        click.echo(json.dumps({"passed": passed, "failed": {t: w for t, w in outcome.items() if w}}, indent=2))
        return
    for test, why in sorted(outcome.items()):
        if why:
            click.echo(f"{test}: {why}")
    what = f"of {len(outcome)} that onnxruntime passes" if not strict else f"of {len(outcome)}"
    click.echo(f"{len(passed)} {what} ({len(cases)} in the suite)")


def _cases(suite: Path | None) -> list[Case]:
    if suite is None:
        return list(installed_cases())
    return [case for name in SUITES for case in folder_cases(suite / name)]


if __name__ == "__main__":
    main()
