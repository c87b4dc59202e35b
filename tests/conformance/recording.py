"""Recording golden cases: short Python specs, run in real Caffe2, written down in the corpus's format.

A spec is a Python file that lists its cases::

    from conformance.recording import case, generator, net, operator

    CASES = [
        case("Relu", {"X": generator(1).standard_normal((2, 3), dtype="float32")}, outputs=["Y"]),
        net([operator("Relu", ["X"], ["H"]), operator("Sum", ["X", "H"], ["Y"])], {"X": ...}),
    ]
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef
from conformance.compare import mismatches
from conformance.corpus import ERRORS_FILE, Array, Quantization
from conformance.oracle import OracleResult, OracleRun, run_oracle, strings_of

ArgumentValue: TypeAlias = float | str | bytes | NetDef | Sequence[int] | Sequence[float] | Sequence[str]
_MESSAGE_LENGTH: Final = 300
_SPECS, _GRADIENTS = "specs", "gradients"  # folders


@dataclass(frozen=True)
class Spec:
    """One case to record: a net, or a net of one operator (``kind`` "op"), and what is fed to it."""

    kind: str
    net: NetDef = field(repr=False)
    inputs: Mapping[str, Array] = field(repr=False)
    quantized: Mapping[str, Quantization] = field(default_factory=dict)


@dataclass(frozen=True)
class Recorded:
    """One case of a case file: its entry in ``meta``, the protobuf, and the arrays by ``in/NAME`` and ``out/NAME``."""

    meta: Mapping[str, Any]
    proto: bytes = field(repr=False)
    arrays: Mapping[str, Array] = field(repr=False)


def generator(seed: int) -> np.random.Generator:
    """Return a generator of random numbers that are the same at every recording."""
    return np.random.default_rng(seed)


def operator(op_type: str, inputs: Sequence[str], outputs: Sequence[str], **args: ArgumentValue) -> OperatorDef:
    """Return an operator. Arguments: int or bool, float, str or bytes, a net, or a list of ints, floats or strings."""
    return OperatorDef(
        type=op_type, input=inputs, output=outputs, arg=[_argument(name, value) for name, value in args.items()]
    )


def case(
    op_type: str,
    inputs: Mapping[str, Array],
    *,
    outputs: Sequence[str] = ("Y",),
    args: Mapping[str, ArgumentValue] | None = None,
    quantized: Mapping[str, Quantization] | None = None,
) -> Spec:
    """Return a case of one operator that reads ``inputs`` in order. ``quantized``: which of them are Int8 tensors."""
    op = operator(op_type, list(inputs), outputs, **(args or {}))
    return Spec("op", NetDef(op=[op]), inputs, quantized or {})


def net(
    ops: Sequence[OperatorDef], inputs: Mapping[str, Array], *, quantized: Mapping[str, Quantization] | None = None
) -> Spec:
    """Return a case of several operators."""
    return Spec("net", NetDef(op=ops, external_input=list(inputs)), inputs, quantized or {})


def _argument(name: str, value: ArgumentValue) -> Argument:
    arg = Argument(name=name)
    match value:
        case int():
            arg.i = int(value)
        case float():
            arg.f = value
        case str() | bytes():
            arg.s = value.encode() if isinstance(value, str) else value
        case NetDef():
            arg.n.CopyFrom(value)
        case [str(), *_]:
            arg.strings.extend(str(item).encode() for item in value)
        case _ if all(isinstance(item, int) for item in value):
            arg.ints.extend(int(item) for item in value)
        case _:
            arg.floats.extend(float(item) for item in value)
    return arg


def read_spec(path: Path) -> list[Spec]:
    """Return the cases that a spec file lists. The file is Python of the developer's own, and is run.

    Raises ValueError where it assigns no ``CASES``.
    """
    found = runpy.run_path(str(path))
    if "CASES" not in found:
        msg = f"{path} assigns no CASES"
        raise ValueError(msg)
    cases: list[Spec] = found["CASES"]
    return cases


def record(spec_path: Path, folder: Path) -> list[str]:
    """Run a spec's cases in real Caffe2 and write them into ``folder``; one line a case on what became of it.

    A case is kept only where two runs in an empty workspace give the same outputs. What Caffe2 refuses is written to
    ``errors.npz``. Cases that an earlier recording of the same spec wrote are replaced.
    """
    name, specs = spec_name(spec_path), read_spec(spec_path)
    runs = [
        OracleRun(spec.net, spec.inputs, quantized=spec.quantized, outputs=list(spec.net.external_output) or None)
        for spec in specs
    ]
    first, second = run_oracle(runs), run_oracle(runs)
    files: dict[Path, list[Recorded]] = {}
    lines = []
    for index, (spec, result, again) in enumerate(zip(specs, first, second, strict=True)):
        test = f"{name}::{index}"
        types = [op.type for op in spec.net.op]
        if not result.error and (again.error or not _same(result, again)):
            lines.append(f"{test} {'+'.join(types)}: not recorded, its outputs differ from run to run")
            continue
        target = folder / _file_name(spec, result, spec_path.stem)
        files.setdefault(target, []).append(_recorded(spec, result, test, types))
        lines.append(f"{test} {'+'.join(types)}: {_message(result) or 'recorded in ' + str(target)}")
    for path in {*files, *(path for path in folder.rglob("*.npz") if "models" not in path.parts)}:
        _replace(path, f"{name}::", files.get(path, []))
    return lines


def spec_name(path: Path) -> str:
    """Return the name under which a spec's cases are recorded: its file's, with ``gradients`` in front of those.

    The folders of families below ``specs`` are no part of it, so that a spec may move. Raises ValueError if two have
    one name.
    """
    path = path.resolve()
    room = next((parent for parent in path.parents if parent.name == _SPECS), None)
    if room is None:
        return path.name
    gradients = room / _GRADIENTS
    ours = path.is_relative_to(gradients)
    for other in room.rglob(path.name):
        if other != path and other.is_relative_to(gradients) == ours:
            raise ValueError(f"{other} has the same name, under which its cases are recorded; choose another one")
    return f"{_GRADIENTS}/{path.name}" if ours else path.name


def _file_name(spec: Spec, result: OracleResult, stem: str) -> Path:
    if result.error:
        return Path(ERRORS_FILE)
    return Path("ops", f"{spec.net.op[0].type}.npz") if spec.kind == "op" else Path("nets", f"{stem}.npz")


def _message(result: OracleResult) -> str:
    """Return what Caffe2 said, without the stack that follows it."""
    return result.error.partition("\nframe #")[0].partition("\nError from operator")[0][:_MESSAGE_LENGTH]


def _same(one: OracleResult, other: OracleResult) -> bool:
    """Whether two runs gave the same, to the last bit of every output (a NaN is a NaN)."""
    if list(one.outputs) != list(other.outputs) or one.quantized != other.quantized:
        return False
    return not mismatches(one.outputs, other.outputs, rtol=0, atol=0)


def _recorded(spec: Spec, result: OracleResult, test: str, types: list[str]) -> Recorded:
    meta: dict[str, Any] = {"kind": spec.kind, "test": test, "types": types}
    meta |= {"inputs": list(spec.inputs), "outputs": list(result.outputs)}
    extra = {
        "opaque": list(result.opaque),
        "int8": {**spec.quantized, **result.quantized},
        "strings": strings_of("in", spec.inputs) | strings_of("out", result.outputs),
        "error": _message(result),
    }
    meta |= {key: value for key, value in extra.items() if value}
    arrays = {f"in/{name}": array for name, array in spec.inputs.items() if array.dtype != object}
    arrays |= {f"out/{name}": array for name, array in result.outputs.items() if array.dtype != object}
    proto = spec.net.op[0] if spec.kind == "op" else spec.net
    return Recorded(meta, proto.SerializeToString(deterministic=True), arrays)


def read_recorded(path: Path) -> list[Recorded]:
    """Return every case of a case file, for writing them again; none where the file does not exist."""
    if not path.is_file():
        return []
    with np.load(path, allow_pickle=False) as archive:
        arrays = dict(archive)
    return [
        Recorded(
            meta,
            arrays[f"{index:03d}/proto"].tobytes(),
            {
                key.partition("/")[2]: array
                for key, array in arrays.items()
                if key.startswith((f"{index:03d}/in/", f"{index:03d}/out/"))
            },
        )
        for index, meta in enumerate(json.loads(arrays["meta"].tobytes()))
    ]


def write_recorded(path: Path, cases: Iterable[Recorded]) -> None:
    """Write a case file."""
    arrays: dict[str, Any] = {}
    metas = []
    for index, item in enumerate(cases):
        metas.append(item.meta)
        arrays[f"{index:03d}/proto"] = np.frombuffer(item.proto, np.uint8)
        arrays.update((f"{index:03d}/{name}", array) for name, array in item.arrays.items())
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays["meta"] = np.frombuffer(json.dumps(metas).encode(), np.uint8)
    np.savez_compressed(path, **arrays)


def _replace(path: Path, prefix: str, new: Sequence[Recorded]) -> None:
    """Put a spec's new cases in the place of its old ones, the rest behind what is there."""
    by_test = {item.meta["test"]: item for item in new}
    old = read_recorded(path)
    kept = [by_test.pop(item.meta["test"], item) for item in old if _stays(item, prefix, by_test)]
    cases = [*kept, *by_test.values()]
    if cases:
        write_recorded(path, cases)
    elif old:
        path.unlink()


def _stays(item: Recorded, prefix: str, new: Mapping[str, Recorded]) -> bool:
    test: str = item.meta["test"]
    return test in new or not test.startswith(prefix)
