"""``caffe2-bridge convert``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

import click

from caffe2_bridge import load_weights, save, save_weights
from caffe2_bridge.diagnostics.listing import listed
from caffe2_bridge.files import FORMATS, WEIGHT_FORMATS, SavedWeights
from caffe2_bridge.files.weight_names import parse_names
from caffe2_bridge.files.weights import weight_format
from caffe2_bridge.storage import AnyPath, read_file, walk
from caffe2_cli import options
from caffe2_cli.command import Outcome, command
from caffe2_cli.errors import print_diagnostics
from caffe2_cli.exit_codes import NO, YES
from caffe2_cli.model_source import ModelSource
from caffe2_cli.output.console import progress
from caffe2_cli.output.echo import message, name_of, say
from caffe2_cli.streams import require_one_file

_NAMED: Final = 10


@command(
    example="caffe2-bridge convert models/char_rnn char_rnn.minidb --format minidb", schema=1,
    codes={YES: "MODEL is converted.", NO: "--verify found a difference."}, in_place=True,
)  # fmt: skip
@options.model
@click.argument("out", metavar="[OUT]", type=options.OUTPUT, required=False)
@options.out("output", "OUT", file=True)
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
@options.verify
def convert(
    model: ModelSource, out: AnyPath | None, output: AnyPath | None, layout: str | None, rename: tuple[str, ...],
    table: AnyPath | None, verify: bool,
) -> Outcome:  # fmt: skip
    """Write MODEL, a Caffe2 model, to OUT in another of Caffe2's formats, or its weights for another framework.

    Of weights, MODEL may be a pickled checkpoint (.pkl) or an .npz file without its net. OUT is replaced once the new
    model is complete.
    """
    target = out or output
    if target is None or (out and output):
        raise click.UsageError("give OUT once: as the second argument, or with -o")
    layout = layout or weight_format(target) or "pb"
    if layout in WEIGHT_FORMATS:
        if verify:
            raise click.UsageError(f"--verify compares models, and {layout} has the weights alone")
        names = None if table is None else parse_names(read_file(table).decode("utf-8", "replace"))
        return _convert_weights(model, target, layout, names, [_parse_rename(text) for text in rename])
    if rename or table:
        raise click.UsageError(f"--rename and --names are for weights: {', '.join(WEIGHT_FORMATS)}, not {layout}")
    start = time.perf_counter()
    with progress("converting"):
        loaded = model.load()
        save(loaded, target, layout)
    require_one_file()
    files = [file for _, files in walk(target) for file in files] if target.is_dir() else [target]
    size, seconds = sum(file.stat().st_size for file in files), time.perf_counter() - start
    operators = len(loaded.predict_net.op)
    say(f"{name_of(target)}: {layout}, {size:,} bytes")
    say(f"inputs {', '.join(loaded.inputs) or 'none'}; outputs {', '.join(loaded.outputs)}; {operators} operators, "
        f"{len(loaded.init.parameters)} parameters; {seconds:.1f} s")  # fmt: skip
    data = {"path": name_of(target), "format": layout, "bytes": size, "seconds": round(seconds, 3)}
    if not verify:
        return Outcome(data)
    from caffe2_cli.verification import verify as compare

    report = compare(loaded, target)
    return Outcome({**data, "verdict": report.verdict}, report.exit_code)


def _convert_weights(
    model: ModelSource, target: AnyPath, layout: str, names: Mapping[str, str] | None, rename: Sequence[tuple[str, str]]
) -> Outcome:
    with progress("converting"):
        found = load_weights(model.path, model.init, predictor=model.predictor, databases=model.databases)
        saved = save_weights(found, target, names=names, rename=rename, format=layout)
    print_diagnostics(found.findings)
    _print_unmatched(
        saved, "weights that the table lacks, left out" if names is not None else "weights that no pattern matches"
    )
    size, written = target.stat().st_size, dict(saved.renamed.names)
    say(f"{name_of(target)}: {layout}, {len(written)} tensors, {size:,} bytes")
    path = name_of(target)
    return Outcome(
        {"path": path, "format": layout, "bytes": size, "tensors": written, "left_out": dict(saved.left_out)}
    )


def _print_unmatched(saved: SavedWeights, what: str) -> None:
    for name, reason in saved.left_out.items():
        message("note", f"{name!r} is left out: {reason}")
    for names, problem in ((saved.renamed.unmatched, what), (saved.renamed.unused, "what matches no weight")):
        if names:
            message("note", f"{problem}: {listed(names, _NAMED)}")


def _parse_rename(text: str) -> tuple[str, str]:
    pattern, separator, replacement = text.partition("=")
    if not separator or not pattern:
        raise click.BadParameter(
            f"{text!r}: expected PATTERN=REPLACEMENT, such as '_w$=.weight'", param_hint="--rename"
        )
    return pattern, replacement
