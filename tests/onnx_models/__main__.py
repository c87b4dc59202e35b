"""Import every ONNX model below a folder and run it: scripts/onnx-models DIR [--only TEXT] [--json]."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from statistics import median

import click
import onnxruntime

from onnx_models.judge import ABSENT, COLUMNS, EQUAL, RANDOM, Outcome, judge


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--only", default="", help="Take the models that have this in their paths.")
@click.option("--json", "as_json", is_flag=True, help="Print every outcome as JSON.")
def main(folder: Path, only: str, as_json: bool) -> None:
    """Import every .onnx file below DIR with Caffe2's operators alone and with ONNX's carried, and run it.

    Inputs are generated. Each result, that of this project's runtime in both modes and of real Caffe2 where it is
    installed, is compared with onnxruntime's on the file itself; where it differs, also with onnxruntime's without
    optimizations, and that of ONNX's reference implementation. The exit status is 1 where a result differs from all.
    """
    paths = [path for path in sorted(folder.rglob("*.onnx")) if only in str(path.relative_to(folder))]
    if not paths:
        raise click.UsageError(f"no .onnx file below {folder}" + (f" has {only!r} in its path" if only else ""))
    onnxruntime.set_default_logger_severity(4)  # sizes are tried until onnxruntime accepts some
    outcomes = [judge(path, str(path.relative_to(folder))) for path in paths]
    if as_json:
        click.echo(json.dumps([asdict(outcome) for outcome in outcomes], indent=2))
    else:
        _print(outcomes)
    if any(text.startswith("differs") for outcome in outcomes for text in outcome.columns.values()):
        raise SystemExit(1)


def _print(outcomes: list[Outcome]) -> None:
    width = max(len(outcome.name) for outcome in outcomes)
    click.echo(f"{'model':{width}}  nodes  " + "  ".join(f"{column:8}" for column in COLUMNS))
    for outcome in outcomes:
        words = [text.partition(":")[0] for text in outcome.columns.values()]
        click.echo(f"{outcome.name:{width}}  {outcome.nodes:5}  " + "  ".join(f"{word:8}" for word in words).rstrip())
    for outcome in outcomes:
        for column, text in outcome.columns.items():
            if text not in (EQUAL, RANDOM, ABSENT):
                click.echo(f"{outcome.name}: {column}: {text}")
    refused = sum((Counter(outcome.refused) for outcome in outcomes), Counter[str]())
    if refused:
        click.echo("refused: " + ", ".join(f"{op_type} {count}" for op_type, count in refused.most_common()))
    for column in COLUMNS:
        texts = [outcome.columns[column] for outcome in outcomes]
        line = f"{column}: {texts.count(EQUAL)} of {sum(text != ABSENT for text in texts)} equal"
        click.echo(line + (f", {texts.count(RANDOM)} random" if RANDOM in texts else ""))
    _print_sizes([outcome for outcome in outcomes if "strict" in outcome.operators])


def _print_sizes(imported: list[Outcome]) -> None:
    """Print the size of the strict nets, over that of the carried ones and of the initializers."""
    ratios = [outcome.operators["strict"] / outcome.operators["carried"] for outcome in imported]
    if not ratios:
        return
    line = f"strict: {median(ratios):.2f} operators for one of the carried net (median of {len(ratios)})"
    init, initializers = (sum(sizes) for sizes in zip(*(outcome.stored for outcome in imported), strict=True))
    click.echo(line + (f", init nets {init / initializers:.2f} of the initializers" if initializers else ""))


if __name__ == "__main__":
    main()
