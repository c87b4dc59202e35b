"""Unsigned integers of 32 and 64 bits, computed with as int64 or as their bits, against NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser

from caffe2_backend import Predictor, to_netdef
from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.model import Model

Array = np.ndarray[Any, Any]
TYPES: Final = ("uint32", "uint64")
TYPE_NUMBERS: Final = {
    "uint32": 12, "uint64": 13, "int32": 6, "int64": 7, "uint8": 2, "int8": 3, "bool": 9, "float": 1, "double": 11,
    "float16": 10,
}  # fmt: skip
BINARY: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.floor_divide, "Mod": np.mod, "Max": np.maximum,
    "Min": np.minimum, "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor,
    "Sum": np.add,
}  # fmt: skip
COMPARISONS: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater, "GreaterOrEqual": np.greater_equal,
    "Equal": np.equal,
}  # fmt: skip


def bits(array: Array) -> Array:
    """Return an array as the strict target stores it."""
    return array.view({"uint32": np.int32, "uint64": np.int64}.get(array.dtype.name, array.dtype))


def numbers(kind: str) -> Array:
    """Return numbers of a type at the ends of its range, around its middle and between."""
    width = np.iinfo(kind).bits
    powers = [1 << n for n in (1, 7, 23, 24, 31, 32, 52, 53, 62, 63) if n < width]
    near = {
        0,
        1,
        3,
        10,
        (1 << width) - 1,
        (1 << width) - 2,
        *powers,
        *(p - 1 for p in powers),
        *(p + 1 for p in powers),
    }
    return np.array([*sorted(near), *np.random.default_rng(0).integers(0, 1 << width, 20, kind)], kind)


def converted(source: str, target: str, body: str, more: str = "") -> Model:
    """Return the strict net of y, which ``body`` computes of x and what ``more`` declares."""
    text = f'<ir_version: 10, opset_import: ["": 21]> g ({source}[N,M] x{more}) => ({target}[N,K] y) {{ {body} }}'
    return to_netdef(parser.parse_model(text))


def run(net: Model, **feed: Array) -> Array:
    """Return what the strict net computes of numbers, as the bits of its result."""
    found: Array = Predictor(net).run({name: bits(value) for name, value in feed.items()})["y"]
    return found


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("op_type", [*BINARY, *COMPARISONS])
def test_all_pairs(kind: str, op_type: str) -> None:
    a = numbers(kind)
    b = a[a > 0] if op_type in ("Div", "Mod") else a
    target = "bool" if op_type in COMPARISONS else kind
    found = run(converted(kind, target, f"y = {op_type} (x, z)", f", {kind}[1,M] z"), x=a[:, None], z=b[None])
    expected = {**BINARY, **COMPARISONS}[op_type](a[:, None], b[None])
    np.testing.assert_array_equal(found, bits(expected))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts(kind: str, direction: str) -> None:
    a, by = numbers(kind), np.arange(np.iinfo(kind).bits).astype(kind)
    net = converted(kind, kind, f'y = BitShift <direction = "{direction}"> (x, z)', f", {kind}[1,M] z")
    expected = np.left_shift(a[:, None], by) if direction == "LEFT" else np.right_shift(a[:, None], by)
    np.testing.assert_array_equal(run(net, x=a[:, None], z=by[None]), bits(expected))
    beyond = np.array([[np.iinfo(kind).bits, np.iinfo(kind).max]], kind)
    assert not run(net, x=a[:, None], z=beyond).any()


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("target", TYPE_NUMBERS)
def test_cast_to(kind: str, target: str) -> None:
    dtype = {"float": "float32", "double": "float64"}.get(target, target)
    a = numbers(kind)[None]
    found = run(converted(kind, target, f"y = Cast <to = {TYPE_NUMBERS[target]}> (x)"), x=a)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, bits(a.astype(dtype)))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("source", ["int32", "int64", "uint8", "int8", "bool", "float", "double", "float16"])
def test_cast_from(kind: str, source: str) -> None:
    dtype = np.dtype({"float": "float32", "double": "float64"}.get(source, source))
    width = np.iinfo(kind).bits
    if dtype.kind == "f":
        largest = min(width, 15) if source == "float16" else width
        whole = [2.0**n for n in range(largest)]
        a = np.array([[0.0, 0.5, 1.75, *whole, *(n * 1.5 for n in whole[:-1]), np.nextafter(whole[-1], 0)]], dtype)
    elif dtype.kind == "b":
        a = np.array([[True, False]])
    else:
        limits = np.iinfo(dtype)
        a = np.array([[0, 1, limits.max, limits.min, limits.max - 1, limits.min + 1]], dtype)
    found = run(converted(source, kind, f"y = Cast <to = {TYPE_NUMBERS[kind]}> (x)"), x=a)
    np.testing.assert_array_equal(found, bits(a.astype(kind)))


@pytest.mark.parametrize("kind", TYPES)
def test_exponents(kind: str) -> None:
    powers = np.array([[0, 1, 2, 3, 31, 62, 63, 64, 65, np.iinfo(kind).max, np.iinfo(kind).max - 1]], kind)
    for source, base in (("int64", [3, -3, 1, -1, 0, 2]), ("float", [1.5, -1.0, 0.5])):
        x = np.array(base, np.int64 if source == "int64" else np.float32)[:, None]
        found = run(converted(source, source, "y = Pow (x, z)", f", {kind}[1,M] z"), x=x, z=powers)
        if source == "int64":
            inside = (powers <= 63) | (np.abs(x) < 2)
            wrapped = [[_wrapped(pow(int(b), p, 1 << 64)) for p in powers[0].tolist()] for b in base]
            np.testing.assert_array_equal(found[inside], np.array(wrapped)[inside])
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                np.testing.assert_allclose(found, np.power(x, powers.astype(np.float32)), rtol=1e-5)


def _wrapped(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


@pytest.mark.parametrize("kind", TYPES)
def test_clip_and_where(kind: str) -> None:
    a = numbers(kind)[None]
    low, high = np.array(5, kind), np.array((1 << (np.iinfo(kind).bits - 1)) + 3, kind)
    net = converted(kind, kind, "y = Clip (x, low, high)", f", {kind} low, {kind} high")
    np.testing.assert_array_equal(run(net, x=a, low=low, high=high), bits(np.clip(a, low, high)))
    net = converted(kind, kind, "c = Less (x, low) y = Where (c, low, x)", f", {kind} low")
    np.testing.assert_array_equal(run(net, x=a, low=low), bits(np.where(a < low, low, a)))


@pytest.mark.parametrize("kind", TYPES)
def test_elements_are_moved(kind: str) -> None:
    a = numbers(kind)[:12].reshape(3, 4)
    body = """
        t = Transpose (x) i = Constant <value = int64[2] {2, 0}> () g = Gather <axis = 1> (t, i)
        e = Constant <value = int64[3] {2, 4, 2}> () w = Expand (g, e) s = Constant <value = int64[2] {-1, 4}> ()
        r = Reshape (w, s) y = Concat <axis = 0> (r, x)
    """
    found = run(converted(kind, kind, body), x=a)
    expected = np.broadcast_to(a.T[:, [2, 0]], (2, 4, 2)).reshape(-1, 4)
    np.testing.assert_array_equal(found, bits(np.concatenate([expected, a])))


@pytest.mark.parametrize("kind", TYPES)
def test_parameters_and_fills(kind: str) -> None:
    largest = np.iinfo(kind).max
    text = f"""<ir_version: 10, opset_import: ["": 21]> g ({kind}[N] x) => ({kind}[N] y)
        <{kind}[1] w = {{{largest}}}>
        {{
            s = Shape (x) f = ConstantOfShape <value = {kind}[1] {{{largest - 1}}}> (s)
            z = Sub (w, x) y = Max (z, f, x)
        }}"""
    x = np.array([0, 1, 5], kind)
    expected = np.maximum(np.maximum(largest - x, largest - 1), x)
    np.testing.assert_array_equal(run(to_netdef(parser.parse_model(text)), x=x), bits(expected.astype(kind)))


SCATTER: Final = 'i = Constant <value = int64[1,1] {0}> () y = ScatterElements <reduction = "max"> (x, i, x)'


@pytest.mark.parametrize("body", ["y = ReduceMax (x)", SCATTER])
def test_what_the_bits_do_not_compute_is_refused(body: str) -> None:
    with pytest.raises(ConversionError) as raised:
        converted("uint64", "uint64", body)
    refused, *notes = raised.value.findings
    assert refused.code == "dtype"
    assert "carry" in refused.hint
    assert {note.code for note in notes} == {"note"}


def test_in_32_bits_more_is_computed() -> None:
    a = numbers("uint32")[None]
    found = run(converted("uint32", "uint32", "i = Constant <value_int = 1> () y = CumSum (x, i)"), x=a)
    np.testing.assert_array_equal(found, bits(np.cumsum(a, 1, "uint32")))


def test_carried_operators_keep_their_types() -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> g (uint64[N] x) => (uint64[N] y) { z = Add (x, x) y = Mul (z, x) }'
    net = to_netdef(parser.parse_model(text), foreign="carry")
    assert [op.domain for op in net.predict_net.op] == ["ai.onnx"] * 2
    x = numbers("uint64")
    np.testing.assert_array_equal(Predictor(net).run({"x": x})["y"], (x + x) * x)


@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    cases = []
    for kind in TYPES:
        a = numbers(kind)
        for op_type in ("Add", "Mul", "Div", "Mod", "Max", "Less", "BitShift"):
            b = a[a > 0] if op_type != "BitShift" else np.arange(np.iinfo(kind).bits).astype(kind)
            target = "bool" if op_type == "Less" else kind
            call = op_type if op_type != "BitShift" else 'BitShift <direction = "RIGHT">'
            net = converted(kind, target, f"y = {call} (x, z)", f", {kind}[1,M] z")
            compute = np.right_shift if op_type == "BitShift" else {**BINARY, **COMPARISONS}[op_type]
            cases.append((net, {"x": a[:, None], "z": b[None]}, compute(a[:, None], b[None])))
        net = converted(kind, "float", "y = Cast <to = 1> (x)")
        cases.append((net, {"x": a[None]}, a[None].astype(np.float32)))
    runs = [
        OracleRun(net.predict_net, {name: bits(value) for name, value in feed.items()}, net.init_net, ["y"])
        for net, feed, _ in cases
    ]
    for (net, _, expected), result in zip(cases, run_oracle(runs), strict=True):
        assert result.error == "", net.predict_net
        np.testing.assert_array_equal(result.outputs["y"], bits(expected), err_msg=str(net.predict_net))
