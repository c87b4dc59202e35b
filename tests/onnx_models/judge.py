"""One model: what becomes of it in both modes, compared with implementations of ONNX on the model itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from conformance.oracle import OracleError, OracleRun, find_oracle, run_oracle
from onnx_suite.cases import difference
from onnx_suite.strict import as_bits, as_numbers

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.admission import load_proto
from caffe2_bridge.diagnostics import BridgeError, ConversionError
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.nested import operators_in
from onnx_models.inputs import Feed, NoInputsError
from onnx_models.witnesses import Results, Witnesses

EQUAL: Final = "equal"
RANDOM: Final = "random"  # onnxruntime gives other numbers in each run: of one type and shape
ABSENT: Final = "-"
_RELATIVE: Final = 1e-3
_OF_THE_LARGEST: Final = 1e-5  # differences below this part of an output's largest element are no differences
# Units in the last place of a half, by which an order of sums and one more or less rounding in between differ.
_HALF: Final = 4 * float(np.finfo(np.float16).eps)


@dataclass(frozen=True)
class Outcome:
    """What became of a model: by column "equal", "random", "-" where it was not run, or what is wrong.

    Attributes:
        name: its path below the folder.
        nodes: the number of its nodes.
        columns: ``carried``, ``strict`` (this project's runtime) and ``caffe2`` (the strict net in real Caffe2).
        refused: the operators that the strict mode refuses, by type.
        operators: how many operators the nets have, those of bodies included: ``carried`` and ``strict``.
        stored: the bytes of the strict init net as it is saved, and those of the model's initializers.
    """

    name: str
    nodes: int
    columns: Mapping[str, str]
    refused: Mapping[str, int] = field(default_factory=dict)
    operators: Mapping[str, int] = field(default_factory=dict)
    stored: tuple[int, int] = (0, 0)


COLUMNS: Final = ("carried", "strict", "caffe2")


def judge(path: Path, name: str) -> Outcome:
    """Import and run a model."""
    try:
        model = load_proto(path)
        witnesses = Witnesses(path, model)
    except (BridgeError, NoInputsError, OSError) as error:
        return Outcome(name, 0, dict.fromkeys(COLUMNS, f"not run: {_first_line(error)}"))
    columns = dict.fromkeys(COLUMNS, ABSENT)
    refused: Mapping[str, int] = {}
    operators, stored = {}, (0, 0)
    for column, foreign in (("carried", "carry"), ("strict", "error")):
        try:
            net = to_netdef(path, foreign=foreign)  # type: ignore[arg-type]  # one of both literals
        except ConversionError as error:
            refused = dict(Counter(finding.location.op_type for finding in error.findings))
            columns[column] = f"refused: {_first_line(error)}"
            continue
        operators[column] = sum(1 for _ in operators_in(net.predict_net))
        compared = _Comparison(model, witnesses, is_strict=foreign == "error")
        if foreign == "carry":
            columns[column] = _here(net, witnesses.feed, compared)
            continue
        stored = _stored(net), sum(map(_stored_bytes, model.graph.initializer))
        feed = {name: as_bits(value) for name, value in witnesses.feed.items()}
        columns[column] = _here(net, feed, compared)
        if find_oracle() is not None:
            columns["caffe2"] = _in_caffe2(net, feed, compared)
    return Outcome(name, len(model.graph.node), columns, refused, operators, stored)


class _Comparison:
    """Compares outputs with what implementations of ONNX give, which is dense for a strict net."""

    def __init__(self, model: onnx.ModelProto, witnesses: Witnesses, *, is_strict: bool) -> None:
        self._names = [value.name for value in model.graph.output]
        self._witnesses = witnesses
        self._labels = _labels(model) if is_strict else {}

    def __call__(self, outputs: Mapping[str, Any]) -> str:
        """Return "equal" where one implementation gives that, else how the outputs differ from onnxruntime's."""
        differences = []
        for expected in self._witnesses:
            differences.append(self._differs(outputs, expected, _difference))
            if not differences[-1]:
                return EQUAL
        if self._witnesses.is_random:
            return self._differs(outputs, next(iter(self._witnesses)), _difference_of_types) or RANDOM
        return differences[0]

    def _differs(self, outputs: Mapping[str, Any], expected: Results, difference: Callable[[Any, Any], str]) -> str:
        for name, value in zip(self._names, expected, strict=True):
            if name not in outputs:
                return f"differs: output {name!r} is missing"
            wanted = _dense(value, self._labels[name]) if name in self._labels else value
            if wrong := difference(wanted, outputs[name]):
                return f"differs: {name!r}: {wrong}"
        return ""


def _labels(model: onnx.ModelProto) -> dict[str, Sequence[Any]]:
    """Return the labels of the outputs that are maps, the results of ZipMap."""
    return {
        node.output[0]: next(list(attribute.ints or attribute.strings) for attribute in node.attribute)
        for node in model.graph.node
        if node.op_type == "ZipMap"
    }


def _dense(rows: Sequence[Mapping[Any, float]], labels: Sequence[Any]) -> Any:
    """Return maps as the strict net has them: the numbers of each row, [N, classes]."""
    keys = [label.decode() if isinstance(label, bytes) else label for label in labels]
    return np.array([[row[key] for key in keys] for row in rows], np.float32)


def _stored(net: Model) -> int:
    """Return the bytes of the init net; 0 where it cannot be saved as one, such as doubles beyond floats."""
    try:
        return sum(map(len, net.init.serialized()))
    except BridgeError:
        return 0


def _stored_bytes(tensor: onnx.TensorProto) -> int:
    return len(tensor.raw_data) or tensor.ByteSize()


def _here(net: Model, feed: Feed, compared: _Comparison) -> str:
    try:
        outputs = Predictor(net).run(feed)
    except BridgeError as error:
        return f"fails: {_first_line(error)}"
    return compared(outputs)


def _in_caffe2(net: Model, feed: Feed, compared: _Comparison) -> str:
    wanted = list(dict.fromkeys(net.predict_net.external_output))
    try:
        result = run_oracle([OracleRun(net.predict_net, feed, net.init_net, wanted)])[0]
    except (BridgeError, OracleError) as error:
        return f"fails: {_first_line(error)}"
    return f"fails: {result.error.splitlines()[0]}" if result.error else compared(result.outputs)


def _difference_of_types(expected: Any, output: Any) -> str:
    """Return how the type or the shape of an output differs; nothing is compared in sequences."""
    if isinstance(expected, list):
        return ""
    wanted, actual = np.asarray(expected), np.asarray(output)
    if (wanted.dtype, wanted.shape) == (actual.dtype, actual.shape):
        return ""
    return f"expected {wanted.dtype}{list(wanted.shape)}, got {actual.dtype}{list(actual.shape)}"


def _difference(expected: Any, output: Any) -> str:
    """Return how an output differs; maps by their keys and their numbers."""
    if isinstance(output, list):
        return difference(expected, output, _RELATIVE, _OF_THE_LARGEST)
    actual = np.asarray(output)
    if isinstance(expected, list) and expected and isinstance(expected[0], dict):
        rows = actual.tolist()
        if [set(row) for row in rows] != [set(row) for row in expected]:
            return f"expected maps of {list(expected[0])}, got {rows!r:.80}"
        expected, actual = (_dense(side, list(expected[0])) for side in (expected, rows))
    relative = _HALF if np.asarray(expected).dtype == np.float16 else _RELATIVE
    return difference(expected, as_numbers(actual, expected), relative, _tolerance(expected))


def _tolerance(value: Any) -> float:
    array = np.asarray(value)
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else np.zeros(0)
    part = _HALF if array.dtype == np.float16 else _OF_THE_LARGEST
    return part * float(np.abs(finite).max(initial=1.0))


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
