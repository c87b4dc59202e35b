"""Type what the hints of diagnostics say to type, and judge what comes of it.

``python -m conformance.hints [CORPUS | FOLDER]`` counts the ends by kind; ``--list END`` prints those that ended so.
"""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import click
import onnx

import caffe2_bridge
from caffe2_backend.input_text import parse_input
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic, Severity
from caffe2_bridge.model import Model
from caffe2_frontend import check, to_onnx
from conformance.corpus import Array, find_cases, read_case
from conformance.third_party import find_nets, known_of, read_known

GOLDEN: Final = Path(__file__).resolve().parents[1] / "golden"
# What stands in a hint for what the user has to know: no hint that says it can be typed.
_OPEN: Final = re.compile(r"\b(NAME|DTYPE|DIMS|TARGET)\b")
_FORMS: Final = re.compile(r"inputs=(\{.*?\})(?=[;)]|$)")

Described = Mapping[str, tuple[Any, ...]]


class End(StrEnum):
    """What became of a net after what its hints say was typed."""

    NOTHING = "nothing to type"
    RIGHT = "converts"
    OTHER_INPUTS = "converts, of other types or ranks than recorded"
    OTHER_INTERFACE = "converts to another interface than before"
    ROUNDS = "asks again"
    REFUSED = "refused"
    NO_CONVERSION = "has operators without a conversion"
    UNTYPABLE = "has a hint that cannot be typed"
    UNREADABLE = "cannot be read"


@dataclass(frozen=True)
class Outcome:
    """The end of a net, what was typed, and what is to be said of it."""

    name: str
    end: End
    typed: Described
    reason: str = ""


def typed_inputs(findings: Iterable[Diagnostic]) -> dict[str, tuple[Any, ...]]:
    """Return the inputs as the hints say to type them on the command line; of two for one input, the first.

    Raises ValueError if a text cannot be parsed, or the spelling in Python describes something else.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for finding in findings:
        if finding.code == "unused-input":  # it says how to keep what the model is better without
            continue
        here = dict(_command_line(finding.hint))
        python = {name: spec for text in _FORMS.findall(finding.hint) for name, spec in ast.literal_eval(text).items()}
        if {n: _plain(s) for n, s in here.items()} != {n: _plain(s) for n, s in python.items()}:
            raise ValueError(f"{finding.hint!r}: --input and inputs= differ")
        found = {**here, **found}
    return found


def _command_line(hint: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for after in hint.split("--input ")[1:]:
        text = next(iter(shlex.shlex(after, posix=True, punctuation_chars=" ,;")), "")
        parsed = parse_input(text)
        if parsed is None:
            raise ValueError(f"{hint!r}: {text!r} is not NAME=DTYPE[DIMS]")
        yield parsed


def _plain(spec: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(tuple(part) if isinstance(part, list) else part for part in spec)


def type_hints(name: str, model: Model, recorded: Mapping[str, Array] | None = None) -> Outcome:
    """Check a net, type what its hints say, and check again; ``recorded`` are inputs that real Caffe2 accepts."""
    first = check(model)
    untypable = [f.hint for f in first.findings if _OPEN.search(f.hint)]
    try:
        typed = typed_inputs(first.findings)
    except (ValueError, SyntaxError) as error:
        untypable.append(str(error))
        typed = {}
    if untypable:
        return Outcome(name, End.UNTYPABLE, typed, untypable[0])
    if not typed:
        return Outcome(name, End.NOTHING, typed)
    return _typed_again(name, model, typed, recorded or {}, covered=first.covered)


def _typed_again(name: str, model: Model, typed: Described, recorded: Mapping[str, Array], *, covered: bool) -> Outcome:
    again = check(model, inputs=typed)
    errors = [f for f in again.findings if f.severity is Severity.ERROR]
    if more := typed_inputs(errors).keys() - typed.keys():
        return Outcome(name, End.ROUNDS, typed, ", ".join(sorted(more)))
    if errors:
        unknown = any(f.code == "unknown-operator" for f in errors)
        return Outcome(name, End.NO_CONVERSION if unknown else End.REFUSED, typed, str(errors[0]))
    try:
        after = interface(to_onnx(model, inputs=typed))
    except ConversionError as error:
        end = End.ROUNDS if typed_inputs(error.errors) else End.REFUSED
        return Outcome(name, end, typed, str(error.errors[0]))
    if covered:
        with suppress(ConversionError):
            before = interface(to_onnx(model))
            if before != after:
                return Outcome(name, End.OTHER_INTERFACE, typed, f"{before} became {after}")
    if others := list(_others(typed, recorded)):
        return Outcome(name, End.OTHER_INPUTS, typed, "; ".join(others))
    return Outcome(name, End.RIGHT, typed)


def interface(model: onnx.ModelProto) -> list[tuple[str, int, int]]:
    """Return the names, element types and ranks of inputs and outputs."""
    values = [*model.graph.input, *model.graph.output]
    return [(v.name, v.type.tensor_type.elem_type, len(v.type.tensor_type.shape.dim)) for v in values]


def _others(typed: Described, recorded: Mapping[str, Array]) -> Iterator[str]:
    for name in typed.keys() & recorded.keys():
        dtype, shape, array = typed[name][0], typed[name][1], recorded[name]
        own = "string" if array.dtype == object else array.dtype.name
        fits = shape is None or (
            len(shape) == array.ndim
            and all(not isinstance(dim, int) or dim == size for dim, size in zip(shape, array.shape, strict=True))
        )
        if dtype not in (None, own) or not fits:
            yield f"{name}: {dtype}{shape}, recorded as {own}{list(array.shape)}"


def corpus_outcomes(corpus: Path, kind: str = "", every: int = 1) -> Iterator[Outcome]:
    """Yield the outcomes of recorded cases: of a kind (op, net, model; all where it is empty), one in ``every``."""
    refs = [ref for ref in find_cases(corpus) if not ref.gradients and kind in ("", ref.kind)]
    for ref in refs[::every]:
        case = read_case(ref)
        yield type_hints(ref.id, Model.of(case.net, case.init_net), case.inputs)


def folder_outcomes(folder: Path) -> Iterator[Outcome]:
    """Yield the outcomes of the nets in a folder of files."""
    known = read_known()
    for path in find_nets(folder):
        name = path.relative_to(folder).as_posix()
        init = known_of(path, known).init
        try:
            yield type_hints(name, caffe2_bridge.load(path, path.with_name(init) if init else None))
        except BridgeError as error:
            yield Outcome(name, End.UNREADABLE, {}, str(error))


@click.command()
@click.argument("folder", type=click.Path(exists=True, path_type=Path), default=GOLDEN)
@click.option("--kind", type=click.Choice(["op", "net", "model"]), default=None, help="Recorded cases of this kind.")
@click.option("--every", type=click.IntRange(1), default=1, help="One recorded case in so many.")
@click.option("--list", "listed", default="none", help="Print the nets whose end has this text in it.")
def main(folder: Path, kind: str | None, every: int, listed: str) -> None:
    """Type what the hints of all nets below FOLDER (default: the golden corpus) say to type, and count the ends.

    Exit status: 1 where a hint cannot be typed, or changes what the net converted to.
    """
    recorded = any(folder.rglob("*.npz")) and folder.resolve().is_relative_to(GOLDEN)
    counts: Counter[End] = Counter()
    for outcome in corpus_outcomes(folder, kind or "", every) if recorded else folder_outcomes(folder):
        counts[outcome.end] += 1
        if listed in outcome.end:
            click.echo(f"{outcome.name}: {outcome.end}: {outcome.reason} {dict(outcome.typed)}")
    for end in End:
        click.echo(f"{counts[end]:6} {end}")
    sys.exit(1 if counts[End.UNTYPABLE] or counts[End.OTHER_INTERFACE] else 0)


if __name__ == "__main__":
    main()
