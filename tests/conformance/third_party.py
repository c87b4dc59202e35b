"""Real files, tried out: each net of a folder is read, converted, run in both worlds, and compared.

Most such files have no weights, and none has inputs: what is missing is synthesized, as for
``validate --random-weights``. Operators that Caffe2 never had are left out, and what they write is synthesized too.
What a file needs that cannot be guessed - sizes of inputs, rows of weights that later operators rely on - is in
``third_party.toml``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import numpy as np

import caffe2_bridge
from caffe2_backend.runtime import Int8Tensor
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Severity
from caffe2_bridge.init.fills import RANDOM
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.readers import cut_readers
from caffe2_validation.inputs.assumptions import Assumptions
from caffe2_validation.inputs.synthesize import StuckError
from caffe2_validation.inputs.synthesized_cases import first_synthesis
from conformance.check import NEEDS_SHAPE
from conformance.compare import mismatches
from conformance.corpus import Array, Quantization
from conformance.executors import OnnxRuntime
from conformance.oracle import OracleError, OracleResult, OracleRun, find_oracle, run_oracle

KNOWN: Final = Path(__file__).with_name("third_party.toml")
_NOT_NETS: Final = frozenset({".json", ".md", ".npz", ".onnx", ".onnxtxt"})

T = TypeVar("T")


class Status(StrEnum):
    """How a file ended."""

    AGREES = "agrees"
    DIFFERS = "differs"
    REFUSED_BY_BOTH = "refused by both"
    REFUSED_BY_CAFFE2 = "converts, refused by Caffe2"
    REFUSED = "refused"
    UNREADABLE = "unreadable"
    CRASHED = "crashed"


@dataclass(frozen=True)
class Known:
    """What is known of a file beforehand: see ``third_party.toml``."""

    inputs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    width: int = 16
    seed: int = 1
    init: str = ""


@dataclass(frozen=True)
class Outcome:
    """What became of one file. ``error`` is the largest difference of a float, ``foreign`` what Caffe2 never had."""

    file: str
    status: Status
    operators: int = 0
    reason: str = ""
    error: float = 0.0
    steps: float = 0.0
    foreign: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Invented:
    """What a net runs on: ``missing`` are the types of its operators that Caffe2 does not have."""

    inputs: Mapping[str, Array] = field(repr=False)
    quantized: Mapping[str, Quantization]
    missing: tuple[str, ...]


@cache
def registered_operators() -> frozenset[str]:
    """Return the operators that real Caffe2 has. Raises OracleError where it is absent."""
    python = find_oracle()
    if python is None:
        raise OracleError("real Caffe2 is not installed; scripts/oracle installs it")
    listing = "from caffe2.python import workspace; print(chr(10).join(workspace.RegisteredOperators()))"
    done = subprocess.run([python, "-I", "-c", listing], capture_output=True, text=True, check=True)  # noqa: S603 - the python that the user installed Caffe2 in
    return frozenset(name.partition("_ENGINE_")[0] for name in done.stdout.split())


def read_known(path: Path = KNOWN) -> dict[str, Known]:
    """Return what is known of files, by the end of their path."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: Known(**entry) for name, entry in table.items()}


def known_of(path: Path, known: Mapping[str, Known]) -> Known:
    """Return what is known of a file: of the longest end of its path that is listed."""
    ends = [end for end in known if path.as_posix().endswith(f"/{end}")]
    return known[max(ends, key=len)] if ends else Known()


def find_nets(folder: Path) -> list[Path]:
    """Return the files of a folder that may be nets: not init nets that belong to another file."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix not in _NOT_NETS]
    return [path for path in files if not _is_init(path)]


def _is_init(path: Path) -> bool:
    words = path.stem.replace(".", "_").split("_")
    return "init" in words and not {"predict", "pred"} & set(words)


def try_file(path: Path, known: Known, label: str = "") -> Outcome:
    """Try one file out. Whatever goes wrong in our code is the outcome, not an exception."""
    label = label or path.name
    try:
        model = cut_readers(caffe2_bridge.load(path, path.with_name(known.init) if known.init else None))
    except BridgeError as error:
        return Outcome(label, Status.UNREADABLE, reason=_first_line(str(error)))
    try:
        return _Trial(path, model, known, label).outcome()
    except Exception:  # noqa: BLE001 - a crash of the code under test is one of the results counted
        return Outcome(label, Status.CRASHED, len(model.predict_net.op), traceback.format_exc())


class _Trial:
    """One net with its parameters, and the inputs that it is tried with."""

    def __init__(self, path: Path, model: Model, known: Known, label: str) -> None:
        self.model, self.label, self.known = model, label, known
        self.predict = model.predict_net
        self.given, self.quantized = self._given(path, known)

    @property
    def net(self) -> NetDef:
        """What the init net leaves to be run, and the net."""
        net = NetDef(name=self.predict.name)
        net.op.extend(op.proto for op in self.model.init.rest)
        net.op.extend(self.predict.op)
        return net

    def _given(self, path: Path, known: Known) -> tuple[dict[str, Array], dict[str, Quantization]]:
        """Return the parameters, and the inputs that something is known of."""
        given = {name: _text(array) for name, array in self.model.params.items()}
        quantized = {
            name: (parameter.scale, parameter.zero_point or 0)
            for name, parameter in self.model.init.parameters.items()
            if parameter.scale is not None
        }
        given |= {name: parameter.load() for name, parameter in self.model.init.placeholders.items()}
        random = np.random.default_rng(1)
        sizes = path.with_name("value_info.json")
        if sizes.is_file():
            for name, (_, shape) in json.loads(sizes.read_text(encoding="utf-8")).items():
                given[name] = random.standard_normal(shape, dtype=np.float32)
        for name, described in _by_name(known.inputs, self._names()).items():
            given[name] = _array(random, *described[:3])
            if len(described) > 3:
                quantized[name] = (float(described[3][0]), int(described[3][1]))
        return given, quantized

    def _names(self) -> list[str]:
        """Return what the net reads, under the names that its blobs have when each is written once."""
        nets = (self.predict, _renamed(self.predict))
        return list(dict.fromkeys(name for net in nets for op in net.op for name in op.input))

    def outcome(self) -> Outcome:
        """Make up what is missing, convert, run both, compare."""
        invented = self._invented()
        if invented.missing:
            # What the missing operators write is fed: such a blob must have no other value.
            self.predict = _renamed(self.predict)
            invented = self._invented()
        net = self._reduced(invented)
        outputs = _results(net)
        make: dict[str, Any] = {
            "foreign": tuple(dict.fromkeys(invented.missing)),
            "operators": len(self.model.predict_net.op),
        }
        if not net.op:
            unknown = f"Caffe2 has none of its operators: {', '.join(make['foreign'])}"
            return Outcome(
                self.label, Status.REFUSED_BY_BOTH, reason=unknown if make["foreign"] else "it is empty", **make
            )
        self._require_named(invented.missing)
        notes: tuple[str, ...] = ()
        reason, model = "", None
        try:
            model = self._converted(net, outputs, invented, sizes=False)
        except ConversionError as error:
            reason = _reasons(error)
            if any(finding.code == NEEDS_SHAPE for finding in error.findings):
                try:
                    model = self._converted(net, outputs, invented, sizes=True)
                    notes = ("with sizes",)
                except ConversionError as again:
                    reason = _reasons(again)
        run = OracleRun(net, invented.inputs, quantized=invented.quantized, outputs=outputs)
        try:
            (result,) = run_oracle([run])
        except OracleError as error:  # some nets end its process
            result = OracleResult(error=str(error))
        if model is None:
            status = Status.REFUSED_BY_BOTH if result.error else Status.REFUSED
            theirs = _first_line(result.error)
            text = f"{reason}; Caffe2: {theirs}" if result.error else reason
            return Outcome(self.label, status, reason=text, notes=notes, **make)
        if result.error:
            text = _first_line(result.error)
            return Outcome(self.label, Status.REFUSED_BY_CAFFE2, reason=text, notes=notes, **make)
        values = dict(zip(outputs, OnnxRuntime(model).run(invented.inputs), strict=True))
        expected = {name: array for name, array in result.outputs.items() if array is not None}
        if {op.type for op in net.op} & RANDOM:
            notes += ("shapes only: random",)
            wrong = [
                f"{name}: shape {values[name].shape}, expected {array.shape}"
                for name, array in expected.items()
                if values[name].shape != array.shape or values[name].dtype != array.dtype
            ]
        else:
            wrong = mismatches(expected, values)
        largest, steps = _errors(expected, values, result.quantized)
        status = Status.DIFFERS if wrong else Status.AGREES
        return Outcome(self.label, status, reason="; ".join(wrong), error=largest, steps=steps, notes=notes, **make)

    def _invented(self) -> Invented:
        """Return the given values, and what a synthesis makes of the rest, as far as it gets."""
        known, names, net = self.known, self._names(), self.net
        missing = tuple(op.type for op in net.op if op.type not in registered_operators())
        kept = [op for op in net.op if op.type not in missing]
        del net.op[:]
        net.op.extend(kept)
        described = self._described()
        given = {n: Int8Tensor(a, *self.quantized[n]) if n in self.quantized else a for n, a in self.given.items()}
        assumptions = Assumptions(
            given,
            {name: np.dtype(kind) for name, (kind, _) in described.items()},
            ranks={name: rank for name, (_, rank) in described.items() if rank is not None},
            rows=_by_name(known.rows, names),
            width=known.width,
            seed=known.seed,
        )
        try:
            made, _ = first_synthesis(Model(net), assumptions)
        except StuckError as error:
            made = error.made
        values = {**given, **made.inputs, **made.weights}
        inputs = {name: v.data if isinstance(v, Int8Tensor) else v for name, v in values.items()}
        quantized = {name: (v.scale, v.zero_point) for name, v in values.items() if isinstance(v, Int8Tensor)}
        return Invented(inputs, quantized, missing)

    def _require_named(self, foreign: Sequence[str]) -> None:
        """Raise unless all the operators that Caffe2 never had are refused by name."""
        from caffe2_frontend import check

        named = " ".join(finding.reason for finding in check(self.model).findings if finding.code == "unknown-operator")
        unnamed = [op_type for op_type in foreign if repr(op_type) not in named]
        if unnamed:
            raise LookupError(f"operators that Caffe2 never had are not refused by name: {', '.join(unnamed)}")

    def _described(self) -> dict[str, tuple[str, int | None]]:
        """Return what the conversion reads off the net about inputs."""
        from caffe2_frontend import describe_inputs

        try:
            inputs = describe_inputs(Model(self.predict, self.model.init))
        except BridgeError:
            return {}
        return {
            name: (info.dtype.numpy().name, None if info.shape is None else len(info.shape))
            for name, info in inputs.items()
            if info.dtype is not None and info.dtype.name != "STRING"
        }

    def _reduced(self, invented: Invented) -> NetDef:
        """Return the net without the operators that Caffe2 never had."""
        net = NetDef(name=self.net.name)
        net.op.extend(op for op in self.net.op if op.type not in invented.missing)
        net.external_input.extend(invented.inputs)
        written = {name for op in net.op for name in op.output}
        net.external_output.extend(name for name in self.predict.external_output if name in written)
        return net

    def _converted(self, net: NetDef, outputs: Sequence[str], invented: Invented, *, sizes: bool) -> Any:
        from caffe2_frontend import to_onnx

        read = {name for op in net.op for name in _reads(op)}
        parameters = set(self.model.init.parameters)
        inputs: dict[str, tuple[Any, ...]] = {}
        for name, array in invented.inputs.items():
            if name in read and name not in parameters:
                dtype = np.dtype(np.str_) if array.dtype == object else array.dtype
                shape = list(array.shape) if sizes else [None] * array.ndim
                kind = invented.quantized.get(name)
                inputs[name] = (dtype, shape) if kind is None else (dtype, shape, kind)
        predict = NetDef(name=net.name, external_input=[n for n in net.external_input if n in read])
        predict.op.extend(net.op[len(net.op) - sum(op.type not in invented.missing for op in self.predict.op) :])
        predict.external_output.extend(outputs)
        return to_onnx(Model.of(predict, self.model.init), inputs=inputs, outputs=list(outputs))


def _renamed(net: NetDef) -> NetDef:
    """Return the net with each blob written once; what is read and never written is an input, declared or not."""
    declared = NetDef()
    declared.CopyFrom(net)
    undeclared = {name for op in net.op for name in op.input} - set(net.external_input)
    declared.external_input.extend(sorted(undeclared))
    return caffe2_bridge.ssa_rewrite(declared)[0]


def _by_name(table: Mapping[str, T], names: Iterable[str]) -> dict[str, T]:
    """Return a table whose keys may be patterns, by the names that they fit; a name's own entry goes first."""
    fitting = {name: table[key] for key in table if "*" in key for name in names if fnmatchcase(name, key)}
    return fitting | {name: value for name, value in table.items() if "*" not in name}


def _reads(op: Any) -> Iterable[str]:
    yield from op.input
    for arg in op.arg:
        if arg.HasField("n"):
            for inner in arg.n.op:
                yield from _reads(inner)


def _results(net: NetDef) -> list[str]:
    """Return the declared outputs; without any, what is written and not read."""
    if net.external_output:
        return list(dict.fromkeys(net.external_output))
    read = {name for op in net.op for name in op.input}
    return list(dict.fromkeys(name for op in net.op for name in op.output if name not in read))


def _array(random: np.random.Generator, dtype: str, shape: Sequence[int], values: Any = None) -> Array:
    """Return an input: its values are given, or below a number that is given, or drawn freely."""
    kind = np.dtype(dtype)
    values = None if values == [] else values
    if isinstance(values, list):
        return np.array(values, kind).reshape(shape)
    if kind.kind == "f":
        return (random.standard_normal(shape) if values is None else random.uniform(0, values, shape)).astype(kind)
    if kind.kind == "b":
        return random.integers(0, 2, shape).astype(kind)
    high = (256 if kind == np.uint8 else 3) if values is None else values
    return random.integers(0, high, shape).astype(kind)


def _text(array: Array) -> Array:
    """Return the array; string tensors hold str, as in a corpus."""
    if array.dtype != object:
        return array
    texts = np.empty(array.shape, object)
    texts.ravel()[:] = [value.decode("latin-1") for value in array.ravel()]
    return texts


def _errors(
    expected: Mapping[str, Array], actual: Mapping[str, Array], quantized: Mapping[str, Quantization]
) -> tuple[float, float]:
    """Return the largest difference of floats, and of the bytes of Int8 tensors."""
    largest = {"f": 0.0, "q": 0.0}
    for name, array in expected.items():
        other = actual[name]
        if array.shape != other.shape or not array.size or array.dtype.kind not in "fiu":
            continue
        kind = "q" if name in quantized else array.dtype.kind
        if kind in largest:
            apart = np.abs(array.astype(np.float64) - other.astype(np.float64))
            largest[kind] = max(largest[kind], float(np.nanmax(np.where(np.isfinite(apart), apart, 0.0))))
    return largest["f"], largest["q"]


def _reasons(error: ConversionError) -> str:
    found = [finding for finding in error.findings if finding.severity is Severity.ERROR]
    return "; ".join(dict.fromkeys(f"{finding.location}: {finding.reason}" for finding in found))


def _first_line(text: str) -> str:
    return " ".join(text.partition("\nframe #")[0].split())[:300]


def _line(outcome: Outcome) -> str:
    parts = [f"{outcome.file}: {outcome.status}"]
    if outcome.status in (Status.AGREES, Status.DIFFERS):
        parts.append(f"largest error {outcome.error:.3g}" + (f", {outcome.steps:g} steps" if outcome.steps else ""))
    if outcome.foreign:
        parts.append("without " + ", ".join(outcome.foreign) + ", which Caffe2 never had")
    parts += [*outcome.notes, *([outcome.reason] if outcome.reason else [])]
    return "; ".join(parts)


@click.command()
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@click.option("--only", default="", help="Only files whose path has this in it.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcomes as JSON.")
def main(folder: Path, only: str, as_json: bool) -> None:
    """Try out every net in FOLDER: read it, convert it, run it in both worlds with made-up weights, compare.

    Exit status: 0 where nothing differs and nothing crashed, 1 otherwise.
    """
    folder = folder.resolve()
    known = read_known()
    outcomes = []
    for path in [folder] if folder.is_file() else find_nets(folder):
        label = path.name if folder.is_file() else path.relative_to(folder).as_posix()
        if only not in path.as_posix():
            continue
        try:
            outcome = try_file(path, known_of(path, known), label)
        except OracleError as error:
            raise click.ClickException(str(error)) from None
        outcomes.append(outcome)
        if not as_json:
            click.echo(_line(outcome))
    if not outcomes:
        raise click.UsageError(f"{folder} holds no net" + (f" with {only!r} in its path" if only else ""))
    counts = Counter(outcome.status for outcome in outcomes)
    if as_json:
        click.echo(json.dumps({"totals": counts, "files": [vars(outcome) for outcome in outcomes]}, indent=1))
    else:
        click.echo(
            f"{len(outcomes)} nets: " + ", ".join(f"{counts[status]} {status}" for status in Status if counts[status])
        )
    sys.exit(1 if counts[Status.DIFFERS] or counts[Status.CRASHED] else 0)


if __name__ == "__main__":
    main()
