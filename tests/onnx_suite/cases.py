"""ONNX's backend test suite as plain cases: a model, its inputs, and what it is to give."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper

SUITES: Final = ("node", "simple", "pytorch-converted", "pytorch-operator")
DataSet = tuple[list[Any], list[Any]]


@dataclass(frozen=True)
class Case:
    """One test of the suite: each data set is the values of the inputs, and of the outputs, in the graph's order."""

    name: str
    suite: str
    model: onnx.ModelProto
    data: tuple[DataSet, ...]
    rtol: float = 1e-3
    atol: float = 1e-7


def installed_cases() -> Iterator[Case]:
    """Yield the suite of the onnx that is installed: node tests are made by it, the others lie in its folders."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite's own arithmetic overflows on purpose
        made = collect_testcases(None)
    for test in made:
        data = tuple(([plain(v) for v in inputs], [plain(v) for v in outputs]) for inputs, outputs in test.data_sets)
        yield Case(test.name, "node", test.model, data, test.rtol, test.atol)
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    for suite in SUITES[1:]:
        yield from folder_cases(folder / suite)


def folder_cases(folder: Path) -> Iterator[Case]:
    """Yield the cases of a folder of the suite: ``<test>/model.onnx`` and ``<test>/test_data_set_<i>``."""
    for path in sorted(folder.iterdir()):
        if not (path / "model.onnx").is_file():
            continue
        model = onnx.load(path / "model.onnx")  # noqa: TID251 - a file of the tests themselves
        data = tuple(
            (_values(data_set, "input", model.graph.input), _values(data_set, "output", model.graph.output))
            for data_set in sorted(path.glob("test_data_set_*"))
        )
        yield Case(path.name, folder.name, model, data)


def _values(folder: Path, side: str, infos: Any) -> list[Any]:
    count = len(list(folder.glob(f"{side}_*.pb")))
    return [_read((folder / f"{side}_{i}.pb").read_bytes(), infos[i].type) for i in range(count)]


def _read(data: bytes, kind: onnx.TypeProto) -> Any:
    match kind.WhichOneof("value"):
        case "sequence_type":
            return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
        case "optional_type":
            return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
        case _:
            return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def plain(value: Any) -> Any:
    """Return a value of the suite as arrays, lists and None."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return numpy_helper.to_optional(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def difference(expected: Any, actual: Any, rtol: float, atol: float) -> str:
    """Return how a value differs from what is expected; empty where it does not.

    Text is compared as text, sequences item by item, and numbers that NumPy lacks as the numbers that they are.
    """
    if expected is None or actual is None:
        return "" if expected is None and actual is None else f"expected {expected!r}, got {actual!r}"
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) != len(expected):
            return f"expected {len(expected)} items, got {actual!r:.80}"
        return next(filter(None, (difference(e, a, rtol, atol) for e, a in zip(expected, actual, strict=True))), "")
    return _array_difference(np.asarray(expected), np.asarray(actual), rtol, atol)


def _array_difference(expected: Any, actual: Any, rtol: float, atol: float) -> str:
    if expected.dtype.kind in "OSU":
        same = expected.shape == actual.shape and _text(expected) == _text(actual)
        return "" if same else f"expected {_text(expected)!r:.80}, got {_text(actual)!r:.80}"
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return f"expected {expected.dtype}{list(expected.shape)}, got {actual.dtype}{list(actual.shape)}"
    if expected.dtype.kind in "biu":
        return "" if np.array_equal(expected, actual) else f"{np.sum(expected != actual)} of {expected.size} differ"
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    return _far(expected.astype(wide), actual.astype(wide), rtol, atol)


def _far(expected: Any, actual: Any, rtol: float, atol: float) -> str:
    close = np.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)
    return (
        "" if close.all() else f"{np.sum(~close)} of {expected.size} differ by up to {np.max(abs(actual - expected))}"
    )


def _text(array: Any) -> list[str]:
    return [v.decode() if isinstance(v, bytes) else str(v) for v in array.reshape(-1).tolist()]
