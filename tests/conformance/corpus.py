"""The recorded cases: reading a corpus of ``.npz`` case files and model folders (format: tests/golden/README.md)."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.npyio import NpzFile

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

Array: TypeAlias = npt.NDArray[Any]
Quantization: TypeAlias = tuple[float, int]

ERRORS_FILE: Final = "errors.npz"
MODEL_NET: Final = "predict_net.pb"
PROGRAM: Final = "program.json"


@dataclass(frozen=True, slots=True)
class CaseRef:
    """Where a case is, and what it is counted under; small, so that it travels between processes.

    ``path`` is a case file, or a model's folder; ``index`` the case in it. ``group`` is the operator type of a case of
    one operator, else the file or folder (``nets/crf_test``, ``models/lstm``). ``id`` is unique in a corpus.
    ``gradients`` are the types of the case's gradient operators.
    """

    path: Path
    index: int
    id: str
    group: str
    kind: str
    gradients: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Case:
    """A net with inputs and the outputs that real Caffe2 computed.

    ``quantized`` holds (scale, zero point) of the inputs and outputs that are Int8 tensors. String tensors are arrays
    of dtype object that hold str. Inputs that are ``stored`` are in the init net too.
    """

    ref: CaseRef
    net: NetDef = field(repr=False)
    init_net: NetDef | None = field(repr=False)
    inputs: Mapping[str, Array] = field(repr=False)
    outputs: Mapping[str, Array] = field(repr=False)
    quantized: Mapping[str, Quantization] = field(default_factory=dict)
    stored: tuple[str, ...] = ()

    @property
    def fed(self) -> list[str]:
        """The inputs that the net is run with."""
        return [name for name in self.inputs if name not in self.stored]


def find_cases(corpus: Path) -> list[CaseRef]:
    """Return every case below ``corpus`` (a folder, one case file, or one model's folder), in a fixed order.

    Case files that hold refusals (``errors.npz``) and recorded training programs are no conformance cases and are left
    out. Raises FileNotFoundError where ``corpus`` does not exist.
    """
    if not corpus.exists():
        raise FileNotFoundError(f"no corpus at {corpus}")
    if corpus.is_file():
        return list(_file_cases(corpus, corpus.parent))
    refs: list[CaseRef] = []
    for path in sorted(corpus.rglob("*.npz")):
        if path.name == ERRORS_FILE or (path.parent / PROGRAM).is_file():
            continue
        if (path.parent / MODEL_NET).is_file():
            if path.name == "cases.npz":
                refs.extend(_model_cases(path.parent, corpus))
        else:
            refs.extend(_file_cases(path, corpus))
    return refs


def read_case(ref: CaseRef) -> Case:
    """Return the case itself. Raises KeyError where the recording is incomplete."""
    return _read_model_case(ref) if ref.kind == "model" else _read_file_case(ref)


def read_net(ref: CaseRef) -> NetDef:
    """Return the net of a case alone, as it was recorded: much faster where the arrays are not needed."""
    if ref.kind == "model":
        return _model_nets(ref.path)[0]
    return _net_of(_file_meta(ref.path)[ref.index], _archive(ref.path)[f"{ref.index:03d}/proto"].tobytes())


def is_gradient(op_type: str) -> bool:
    """Whether an operator type is a gradient by its name, as Caffe2 names them."""
    return op_type.endswith(("Gradient", "Grad"))


def is_named(ref: CaseRef, name: str) -> bool:
    """Whether ``name`` means the case: its id, its group in full or without the folder, or a file or folder above it.

    ``ops/Relu`` means the cases of ``ops/Relu.npz`` and those of ``recorded/ops/Relu.npz``.
    """
    name = name.removesuffix(".npz").strip("/")
    inside = ref.id.removeprefix("recorded/")
    return (
        name in {ref.group, ref.group.rpartition("/")[2]}
        or f"{ref.id}/".startswith(f"{name}/")
        or (f"{inside}/".startswith(f"{name}/"))
    )


def _label(path: Path, corpus: Path) -> str:
    inside = path.relative_to(corpus)
    return path.resolve().name if path == corpus else inside.with_suffix("").as_posix()


@cache  # the list of all cases is asked for by many, and takes seconds
def _file_cases(path: Path, corpus: Path) -> tuple[CaseRef, ...]:
    return tuple(_read_file_cases(path, corpus))


def _read_file_cases(path: Path, corpus: Path) -> Iterator[CaseRef]:
    label = _label(path, corpus)
    for index, meta in enumerate(_file_meta(path)):
        if meta.get("error"):
            continue
        single = meta["kind"] == "op" or path.parent.name == "ops"
        yield CaseRef(
            path=path,
            index=index,
            id=f"{label}/{index:03d}",
            group=meta["types"][0] if single else label,
            kind="op" if single else "net",
            gradients=frozenset(filter(is_gradient, meta["types"])),
        )


def _model_cases(folder: Path, corpus: Path) -> Iterator[CaseRef]:
    label = _label(folder, corpus)
    net = _model_nets(folder)[0]
    count = 1 + max((int(name.split("/")[0]) for name in _archive(folder / "cases.npz")), default=-1)
    for index in range(count):
        yield CaseRef(
            path=folder,
            index=index,
            id=f"{label}/{index}",
            group=label,
            kind="model",
            gradients=frozenset(op.type for op in net.op if is_gradient(op.type)),
        )


@lru_cache(maxsize=4)
def _archive(path: Path) -> NpzFile:
    """Return the arrays of a file by name, each read when it is asked for: one case needs a few of hundreds."""
    archive: NpzFile = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
    return archive


@lru_cache(maxsize=4)
def _file_meta(path: Path) -> list[dict[str, Any]]:
    meta: list[dict[str, Any]] = json.loads(_archive(path)["meta"].tobytes())
    return meta


def _net_of(meta: Mapping[str, Any], proto: bytes) -> NetDef:
    return NetDef.FromString(proto) if meta["kind"] == "net" else NetDef(op=[OperatorDef.FromString(proto)])


@lru_cache(maxsize=4)
def _model_nets(folder: Path) -> tuple[NetDef, NetDef]:
    return (
        NetDef.FromString((folder / MODEL_NET).read_bytes()),
        NetDef.FromString((folder / "init_net.pb").read_bytes()),
    )


def _read_file_case(ref: CaseRef) -> Case:
    meta = _file_meta(ref.path)[ref.index]
    arrays = _archive(ref.path)
    net = _net_of(meta, arrays[f"{ref.index:03d}/proto"].tobytes())
    strings = meta.get("strings", {})

    def values(side: str, names: list[str]) -> dict[str, Array]:
        return {
            name: text_array(*strings[f"{side}/{name}"])
            if f"{side}/{name}" in strings
            else arrays[f"{ref.index:03d}/{side}/{name}"]
            for name in names
        }

    case = Case(
        ref,
        net,
        None,
        values("in", meta["inputs"]),
        values("out", meta["outputs"]),
        {name: (float(scale), int(zero)) for name, (scale, zero) in meta.get("int8", {}).items()},
    )
    # What the net declares varies from test to test; what was fed and what was recorded is certain.
    del net.external_input[:]
    del net.external_output[:]
    net.external_input.extend(case.inputs)
    net.external_output.extend(case.outputs)
    return case


def text_array(shape: list[int], values: list[str]) -> Array:
    """Return a string tensor: an array of dtype object that holds str."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(shape)


def _read_model_case(ref: CaseRef) -> Case:
    net, init_net = _model_nets(ref.path)
    sides: dict[str, dict[str, Array]] = {"in": {}, "out": {}}
    arrays = _archive(ref.path / "cases.npz")
    for key in arrays:
        index, side, name = key.split("/", 2)
        if int(index) == ref.index:
            sides[side][name] = arrays[key]
    return Case(ref, net, init_net, sides["in"], sides["out"])
