"""``caffe2-bridge convert``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import click

from caffe2_bridge import load, load_weights, save, save_weights
from caffe2_bridge.diagnostics.listing import listed
from caffe2_bridge.files import FORMATS, WEIGHT_FORMATS, SavedWeights
from caffe2_bridge.files.weight_names import parse_names
from caffe2_bridge.files.weights import weight_format
from caffe2_bridge.storage import AnyPath, read_file, walk
from caffe2_cli import options
from caffe2_cli.errors import print_diagnostics, reports_errors
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import echo

_NAMED: Final = 10


@click.command()
@options.model
@click.argument("out", metavar="[OUT]", type=options.LOCATION, required=False)
@click.option("-o", "--output", "output", type=options.LOCATION, help="OUT.")
@options.init
@options.predictor
@click.option(
    "--format", "layout", type=click.Choice((*FORMATS, *WEIGHT_FORMATS)),
    help="pb and pbtxt: a folder with two nets; minidb: a database in a file; lmdb, leveldb: a database in a folder; "
    "safetensors, npz, pt: a file with the weights alone. Default: what the suffix of OUT says of weights, else pb.",
)  # fmt: skip
@click.option(
    "--rename", multiple=True, metavar="PATTERN=REPLACEMENT",
    help="Rename weights: a regular expression, and what replaces each match. Repeatable; applied in order.",
)  # fmt: skip
@click.option(
    "--names", "table", type=options.LOCATION,
    help="A file with two columns, names of weights and their new names; others are left out.",
)  # fmt: skip
@reports_errors()
def convert(
    model: AnyPath, out: AnyPath | None, output: AnyPath | None, init: AnyPath | None, predictor: str | None,
    layout: str | None, rename: tuple[str, ...], table: AnyPath | None,
) -> None:  # fmt: skip
    """Write MODEL, a Caffe2 model, to OUT in another of Caffe2's formats, or its weights for another framework.

    Of weights, MODEL may be a pickled checkpoint (.pkl) without its net. OUT is replaced once the new model is
    complete.
    """
    target = out or output
    if target is None or (out and output):
        raise click.UsageError("give OUT once: as the second argument, or with -o")
    layout = layout or weight_format(target) or "pb"
    if layout in WEIGHT_FORMATS:
        names = None if table is None else parse_names(read_file(table).decode("utf-8", "replace"))
        _convert_weights(model, target, init, predictor, layout, names, [_parse_rename(text) for text in rename])
        return
    if rename or table:
        raise click.UsageError(f"--rename and --names are for weights: {', '.join(WEIGHT_FORMATS)}, not {layout}")
    with progress("converting"):
        save(load(model, init, predictor=predictor), target, layout)
    files = [file for _, files in walk(target) for file in files] if target.is_dir() else [target]
    echo(f"{target}: {layout}, {sum(file.stat().st_size for file in files):,} bytes")


def _convert_weights(
    model: AnyPath, target: AnyPath, init: AnyPath | None, predictor: str | None, layout: str,
    names: Mapping[str, str] | None, rename: Sequence[tuple[str, str]],
) -> None:  # fmt: skip
    with progress("converting"):
        found = load_weights(model, init, predictor=predictor)
        saved = save_weights(found, target, names=names, rename=rename, format=layout)
    print_diagnostics(found.findings)
    _print_unmatched(
        saved, "weights that the table lacks, left out" if names is not None else "weights that no pattern matches"
    )
    echo(f"{target}: {layout}, {len(saved.renamed.names)} tensors, {target.stat().st_size:,} bytes")


def _print_unmatched(saved: SavedWeights, what: str) -> None:
    for name, reason in saved.left_out.items():
        echo(f"note: {name!r} is left out: {reason}", err=True)
    for names, problem in ((saved.renamed.unmatched, what), (saved.renamed.unused, "what matches no weight")):
        if names:
            echo(f"note: {problem}: {listed(names, _NAMED)}", err=True)


def _parse_rename(text: str) -> tuple[str, str]:
    pattern, separator, replacement = text.partition("=")
    if not separator or not pattern:
        raise click.BadParameter(
            f"{text!r}: expected PATTERN=REPLACEMENT, such as '_w$=.weight'", param_hint="--rename"
        )
    return pattern, replacement
