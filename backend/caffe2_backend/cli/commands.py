"""The command line: ``caffe2-bridge``."""

from __future__ import annotations

import json
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from caffe2_backend.cli.validation import add_commands
from caffe2_bridge import Model, load, save
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic, NetFormatError, OptionError
from caffe2_bridge.files import FORMATS

_INPUT = re.compile(r"(?P<name>.+?)=(?P<dtype>\w+)?(?:\[(?P<dims>[^\]]*)\])?")


def _reports_errors(command: Callable[..., None]) -> Callable[..., None]:
    """What is wrong with the model goes to stderr, a finding a line, and the exit code is 1; 2 for wrong options."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except ConversionError as error:
            _print_findings(error.findings)
            sys.exit(1)
        except (BridgeError, OSError) as error:
            if _is_usage(error):
                raise click.UsageError(str(error)) from None
            click.echo(f"error: {error}", err=True)
            sys.exit(1)

    return wrapped


def _is_usage(error: Exception) -> bool:
    from caffe2_frontend.interop.types import InputSpecError

    return isinstance(error, OptionError | InputSpecError)


def _print_findings(findings: tuple[Diagnostic, ...]) -> None:
    for finding in findings:
        click.echo(str(finding), err=True)


@contextmanager
def _progress(text: str) -> Iterator[None]:
    """A spinner on a terminal, nothing in a pipe."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


def _described(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, tuple[Any, Any]]:
    """``NAME=DTYPE[DIMS]``: ``x=float32[T,N,256]``, ``x=[N,?]``, ``x=int64``."""
    described = {}
    for value in values:
        match = _INPUT.fullmatch(value)
        if match is None:
            raise click.BadParameter(f"{value!r}: expected NAME=DTYPE[DIM,...], such as data=float32[N,3,224,224]")
        dims = match["dims"]
        shape = None if dims is None else [_dim(dim.strip()) for dim in dims.split(",") if dim.strip()]
        described[match["name"]] = (match["dtype"], shape)
    return described


def _placed(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> str | dict[str, str] | None:
    """``cuda:0`` for all, or ``NAME=cuda:0`` by input."""
    pairs = [value.rpartition("=") for value in values]
    named = {name: device for name, _, device in pairs if name}
    if len(named) == len(pairs):
        return named or None
    if len(pairs) > 1:
        raise click.BadParameter("one device for all, or NAME=DEVICE for each: the two do not go together")
    return pairs[0][2]


def _dim(text: str) -> int | str | None:
    if text in ("?", "*"):
        return None
    return int(text) if text.isdigit() else text


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="caffe2-bridge", prog_name="caffe2-bridge")
def main() -> None:
    """Caffe2 nets to ONNX and back, run on onnxruntime, and proved equal across runtimes.

    MODEL is a folder with a predict net and an init net, a predict net's file, a predictor database, or an .onnx file.
    """


_model = click.argument("model", type=click.Path(path_type=Path))
_init = click.option("--init", type=click.Path(path_type=Path), help="The init net, where it is not beside MODEL.")
_inputs = click.option(
    "--input", "inputs", multiple=True, callback=_described, metavar="NAME=DTYPE[DIMS]",
    help="What is known of an input; a dim is a size, a name or '?'. Repeatable.",
)  # fmt: skip


@main.command()
@_model
@_init
@_inputs
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@_reports_errors
def check(model: Path, init: Path | None, inputs: dict[str, Any], as_json: bool) -> None:
    """Tell what of MODEL is not covered, all of it at once.

    Exit code 0: covered, 1: findings, 2: usage.
    """
    from caffe2_frontend import check as check_net

    with _progress("checking"):
        report = check_net(load(model, init), inputs=inputs)
    if as_json:
        click.echo(report.to_json())
    else:
        _print_findings(report.findings)
        total = sum(report.converted.values())
        click.echo(f"{total} operators convert; {'covered' if report.covered else 'not covered'}")
    sys.exit(0 if report.covered else 1)


@main.command()
@_model
@_init
@_inputs
@click.option("-o", "--output-file", "target", required=True, type=click.Path(path_type=Path), help="The .onnx file.")
@click.option("--output", "outputs", multiple=True, metavar="NAME", help="A blob to output, in place of the net's own.")
@click.option("--opset", type=int, help="The ONNX opset; default 20.")
@click.option(
    "--recurrent", type=click.Choice(["auto", "fused", "scan", "loop"]), default="auto", show_default=True,
    help="The form of recurrent nets.",
)  # fmt: skip
@click.option("--stateful", is_flag=True, help="Recurrent states as inputs and outputs, to carry from call to call.")
@click.option("--reroll", is_flag=True, help="Make loops again of nets that were unrolled over time.")
@click.option("--certify", is_flag=True, help="Prove fused recurrent operators in numbers; exit 1 if one is not equal.")
@_reports_errors
def export(
    model: Path,
    init: Path | None,
    inputs: dict[str, Any],
    target: Path,
    outputs: tuple[str, ...],
    opset: int | None,
    recurrent: Any,
    stateful: bool,
    reroll: bool,
    certify: bool,
) -> None:
    """Convert MODEL to ONNX. Weights above 2 GB go to a file beside the model."""
    from caffe2_frontend import convert
    from caffe2_frontend.interop.onnx_files import save_onnx

    loaded = load(model, init)
    if certify:
        _certify(loaded)
    with _progress("exporting"):
        converted = convert(
            loaded,
            inputs=inputs,
            outputs=outputs or None,
            opset=opset,
            recurrent=recurrent,
            stateful=stateful,
            reroll=reroll,
        )
        written = save_onnx(converted, target)
    for path in written:
        click.echo(f"{path}: {path.stat().st_size:,} bytes")


@main.command(name="import")
@_model
@click.option("-o", "--output", "target", required=True, type=click.Path(path_type=Path), help="The folder to write.")
@click.option(
    "--foreign", type=click.Choice(["error", "carry"]), default="error", show_default=True,
    help="What becomes of operators that Caffe2 lacks: refused, or taken along as they are.",
)  # fmt: skip
@click.option(
    "--device", "devices", multiple=True, callback=_placed, metavar="[NAME=]DEVICE",
    help="cpu or cuda:N: where the operators are to run; or, repeatable, where an input or parameter is.",
)  # fmt: skip
@click.option(
    "--format", "form", type=click.Choice(["pb", "pbtxt", "minidb"]), default="pb", show_default=True,
    help="How the nets are written.",
)  # fmt: skip
@_reports_errors
def import_(model: Path, target: Path, foreign: Any, devices: Any, form: Any) -> None:
    """Convert MODEL, an .onnx file, to a Caffe2 net and its init net."""
    from caffe2_backend.importer import convert
    from caffe2_bridge import save

    with _progress("importing"):
        converted, restored = convert(model, foreign=foreign, device=devices)
        save(converted, target, format=form)
    carried = sum(bool(op.domain) for op in converted.predict_net.op)
    click.echo(
        f"{target}: {len(converted.predict_net.op)} operators, {carried} of them ONNX's own, "
        f"{sum(restored.values())} from a Caffe2 net and as they were"
    )


def _certify(model: Model) -> None:
    from caffe2_backend.validation.certify import certify

    with _progress("certifying"):
        certificates = certify(model)
    for certificate in certificates:
        click.echo(str(certificate))
    if not all(certificate.agrees for certificate in certificates):
        click.echo("error: a fused operator does not compute what the net computes; nothing was exported", err=True)
        sys.exit(1)


@main.command()
@_model
@_init
@click.option("--inputs", "source", type=click.Path(path_type=Path), help="An .npz file with an array for each input.")
@click.option(
    "-o", "--outputs", "target", required=True, type=click.Path(path_type=Path), help="The .npz file to write."
)
@click.option(
    "--device", help="cpu (ignores device options) or cuda:N; by default operators run where the net says, else cpu."
)
@_reports_errors
def run(model: Path, init: Path | None, source: Path | None, target: Path, device: str | None) -> None:
    """Run MODEL once on onnxruntime."""
    from caffe2_backend.runtime import Int8Tensor, Predictor

    arrays = _read_arrays(source) if source else {}
    with _progress("running"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loaded = str(model) if model.suffix == ".onnx" else load(model, init)
        found = Predictor(loaded, device).run(arrays)
    for warning in caught:
        click.echo(f"warning: {warning.message}", err=True)
    results = {name: value.data if isinstance(value, Int8Tensor) else value for name, value in found.items()}
    _write_arrays(target, results)
    for name, array in results.items():
        click.echo(f"{name}: {array.dtype}{list(array.shape)}")


def _read_arrays(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise NetFormatError(f"not an .npz file of plain arrays: {error}", str(path)) from None


def _write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """All or nothing; strings, which the runtime gives as objects, are written as text."""
    from caffe2_frontend.interop.onnx_files import replacing

    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            plain = array.astype(str) if array.dtype == object else array
            with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                np.lib.format.write_array(part, np.ascontiguousarray(plain).reshape(plain.shape), allow_pickle=False)


@main.command()
@_model
@_init
@click.option("--predictor", metavar="NAME", help="Which predictor, of a database that holds several.")
@click.option("--svg", type=click.Path(path_type=Path), help="Draw the net into this file instead (needs graphviz).")
@_reports_errors
def show(model: Path, init: Path | None, predictor: str | None, svg: Path | None) -> None:
    """Summarise MODEL: inputs, outputs, operators, parameters and their sizes. Or draw it."""
    from caffe2_backend.cli.summary import summarize

    onnx = model.suffix == ".onnx"
    if onnx and (init is not None or predictor is not None):
        raise click.UsageError("--init and --predictor are for Caffe2 models")
    if svg is None:
        for table in summarize(model if onnx else load(model, init, predictor=predictor)):
            Console().print(table)
        return
    from caffe2_backend.picture import draw

    with _progress("drawing"):
        draw(model if onnx else load(model, init, predictor=predictor), svg)
    click.echo(f"{svg}: {svg.stat().st_size:,} bytes")


@main.command()
@_model
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@_init
@click.option("--predictor", metavar="NAME", help="Which predictor, of a database that holds several.")
@click.option(
    "--format", "layout", type=click.Choice(FORMATS), default="pb", show_default=True,
    help="pb and pbtxt: a folder with two nets; minidb: a database in a file; lmdb, leveldb: a database in a folder.",
)  # fmt: skip
@_reports_errors
def convert(model: Path, target: Path, init: Path | None, predictor: str | None, layout: str) -> None:
    """Write MODEL, a Caffe2 model, to OUT in another of Caffe2's formats.

    What is at OUT is replaced once the new model is complete.
    """
    with _progress("converting"):
        save(load(model, init, predictor=predictor), target, layout)
    files = sorted(file for file in target.rglob("*") if file.is_file()) if target.is_dir() else [target]
    click.echo(f"{target}: {layout}, {sum(file.stat().st_size for file in files):,} bytes")


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON.")
def ops(as_json: bool) -> None:
    """List the Caffe2 operators that convert to ONNX, by family."""
    from caffe2_frontend.ops import FAMILIES

    rows = {family.name: sorted(family.converters) for family in sorted(FAMILIES, key=lambda f: f.name)}
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table("family", "Caffe2 operators", title=f"{sum(map(len, rows.values()))} operators", title_justify="left")
    for name, types in rows.items():
        table.add_row(name, ", ".join(types))
    Console().print(table)


add_commands(main, _described, _read_arrays)
