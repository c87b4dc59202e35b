"""What gives a case cause to deviate: elements of its operands, and where its results differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np
from conformance.compare import mismatches
from conformance.corpus import Array

from caffe2_bridge.control import all_operators
from caffe2_bridge.netdef.views import NetView, OpView
from fuzz.exact.drawing.drawn import Drawn

Arrays = Mapping[str, Array]
INT8_PRODUCTS: Final = frozenset({"Int8Conv", "Int8ConvRelu", "Int8ConvTranspose", "Int8FC", "Int8FCRelu"})


def has_nan(drawn: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether an operand or a result has a NaN."""
    arrays = (*drawn.inputs.values(), *expected.values(), *actual.values())
    return any(array.dtype.kind == "f" and bool(np.isnan(array).any()) for array in arrays)


def has_subnormal_exponentials(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the exponential of an element is below the normal numbers of float32, and not 0."""
    floats = [array for array in drawn.inputs.values() if array.dtype.kind == "f"]
    return any(bool(((array > -104) & (array < -87.3)).any()) for array in floats)


def has_negative_subnormals(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether an element is negative, and too small to be a normal number of its type."""
    floats = [array for array in drawn.inputs.values() if array.dtype.kind == "f"]
    return any(bool(((array < 0) & (array > -np.finfo(array.dtype).tiny)).any()) for array in floats)


def is_not_finite(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether an operand or an argument is not finite."""
    args = [arg for op in all_operators(NetView(drawn.net)) for arg in op.proto.arg]
    numbers = np.array([number for arg in args for number in (arg.f, *arg.floats)])
    arrays: list[Array] = [numbers, *(array for array in drawn.inputs.values() if array.dtype.kind == "f")]
    return not all(np.isfinite(array).all() for array in arrays)


def overflows(_: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether results differ only where Caffe2's are infinite."""
    pairs = [(array, actual[name]) for name, array in expected.items()]
    if any(one.shape != other.shape or one.dtype.kind != "f" for one, other in pairs):
        return False
    return all(
        np.allclose(one[finite], other[finite], 1e-3, 1e-4, equal_nan=True)
        for one, other in pairs
        for finite in [np.isfinite(one)]
    )


def differs_in_lowest(drawn: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether results differ only where Caffe2's is negative infinity, and the other the lowest number.

    Or the reverse, in order NHWC.
    """
    lowest = np.finfo(np.float32).min
    is_last = any(op.args.text("order", default="NCHW") == "NHWC" for op in all_operators(NetView(drawn.net)))

    def is_lowest(infinite: Array, other: Array) -> Array:
        return np.asarray(np.isneginf(infinite) & (other == lowest))

    return any(bool((array == lowest).any()) for array in (*expected.values(), *actual.values())) and _differs_at(
        expected, actual, lambda one, other: is_lowest(one, other) | (is_last & is_lowest(other, one))
    )


def differs_by_roundings_of_gates(drawn: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether results differ no further than a rounding of 1 times the largest operand, which is beyond a million."""
    largest = max(float(np.abs(array).max(initial=0)) for array in drawn.inputs.values() if array.dtype.kind == "f")
    return 1e6 < largest < np.inf and _differs_at(
        expected, actual, lambda one, other: np.abs(one - other) <= np.finfo(np.float32).eps * largest
    )


def is_nan_for_an_infinity(_: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether results differ only where Caffe2's is a NaN, and the other infinite."""
    return _differs_at(expected, actual, lambda one, other: np.isnan(one) & np.isinf(other))


def overflows_midway(_: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether results differ only where one is infinite and the other nearly so."""

    def allowed(one: Array, other: Array) -> Array:
        largest = np.finfo(one.dtype).max
        nearly = np.minimum(np.abs(one), np.abs(other)) > largest / 300
        return np.asarray(nearly & (np.isinf(one) | np.isinf(other)))

    return _differs_at(expected, actual, allowed)


def has_constant_rows(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the deviation of a row is small beside its mean."""
    for array in drawn.inputs.values():
        if array.dtype.kind == "f" and array.ndim > 1 and array.size:
            rows = array.reshape(len(array), -1).astype(np.float64)
            with np.errstate(all="ignore"):
                if not (rows.std(axis=1) > 3e-3 * np.abs(rows).max(axis=1)).all():
                    return True
    return False


def cancels(drawn: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether results differ by rounding errors of the operands' squares at most, or only where one is not finite."""
    floats = [array for array in drawn.inputs.values() if array.dtype.kind == "f" and array.size]
    with np.errstate(all="ignore"):
        most = max((float(np.square(np.nan_to_num(array.astype(np.float64))).max()) for array in floats), default=0.0)
        finite = all(bool(np.isfinite(array).all()) for array in floats)

        def allowed(one: Array, other: Array) -> Array:
            apart = np.abs(one.astype(np.float64) - other) <= 1e-6 * most
            return apart if finite else apart | ~(np.isfinite(one) & np.isfinite(other))

        return _differs_at(expected, actual, allowed)


def has_no_rows(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether an operand has a dim of 0."""
    return any(0 in array.shape for array in drawn.inputs.values())


def _differs_at(expected: Arrays, actual: Arrays, allowed: Callable[[Array, Array], Array]) -> bool:
    """Whether floats alone differ, and only where ``allowed`` holds of what was expected and computed."""
    for name, one in expected.items():
        other = actual[name]
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if one.dtype.kind != "f":
            if not np.array_equal(one, other):
                return False
            continue
        with np.errstate(all="ignore"):
            close = np.isclose(other, one, 1e-3, 1e-4, equal_nan=True)
            if not (close | allowed(one, other)).all():
                return False
    return True


def leaves_the_range(_: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether results differ only where one of them is not finite."""
    return bool(expected) and _differs_at(expected, actual, lambda one, other: ~(np.isfinite(one) & np.isfinite(other)))


def both_leave_the_range(expected: Arrays, actual: Arrays) -> bool:
    """Whether elements of both results are not finite: one may come of the other."""
    return not any(
        all(np.isfinite(a).all() for a in each.values() if a.dtype.kind == "f") for each in (expected, actual)
    )


def is_not_finite_and_leaves_the_range(drawn: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether an operand or an argument is not finite, and results differ only where one of them is not."""
    return is_not_finite(drawn, expected, actual) and leaves_the_range(drawn, expected, actual)


def small(array: Array) -> Array:
    """The array with its large finite elements cut to small ones of their sign; itself if it has none."""
    if array.dtype.kind != "f":
        return array
    limit, most = 1e2 if array.dtype == np.float16 else 1e17, 10.0
    large = np.isfinite(array) & (np.abs(array) > limit)
    return np.where(large, np.copysign(most, array), array).astype(array.dtype) if large.any() else array


def sums_leave_the_range(drawn: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether finite elements are so large that sums or products of them are not."""
    floats = [array for array in drawn.inputs.values() if array.dtype.kind == "f" and array.size]
    limit = 1e2 if any(array.dtype == np.float16 for array in floats) else 1e17
    large = any(bool((np.abs(array[np.isfinite(array)]) > limit).any()) for array in floats)
    return large and leaves_the_range(drawn, expected, actual)


def powers_leave_the_range(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the sum of all products of an element of each row of an operand may leave the range of float32."""
    for array in drawn.inputs.values():
        if array.dtype.kind == "f" and array.ndim and array.size:
            with np.errstate(all="ignore"):
                power = (np.abs(array.astype(np.float64)).max() * array.shape[-1]) ** len(array)
            if not power < 1e38:  # nor a NaN
                return True
    return False


def has_special_floats(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether an element is not finite, or the scale of a result does not leave it within 32 bits."""
    reals = [array.astype(np.float64) for array in drawn.inputs.values() if array.dtype.kind == "f"]
    reals += [np.array([255 * scale]) for scale, _ in drawn.quantized.values()]
    scales = (op.args.number("Y_scale", default=1.0) for op in all_operators(NetView(drawn.net)))
    least = min((scale for scale in scales if scale > 0), default=1.0)
    return any(not bool((np.abs(array) < least * 2**30).all()) for array in reals)


def shifts_too_far(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether QNNPACK scales products of Int8 tensors by less than 2**-32."""
    return any("DNNLOWP" not in op.engine and factor < np.float32(2**-32) for op, factor in _int8_products(drawn))


def exceeds_32_bits(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether DNNLOWP may scale sums of products of Int8 tensors beyond 32 bits."""
    for op, factor in _int8_products(drawn):
        weights, bias = (drawn.inputs.get(name) for name in op.inputs[1:3])
        if "DNNLOWP" in op.engine and weights is not None and bias is not None and weights.ndim:
            largest = 255.0**2 * weights.size / max(len(weights), 1) + np.abs(bias.astype(np.float64)).max(initial=0)
            if largest * factor >= 2.0**31:
                return True
    return False


def _int8_products(drawn: Drawn) -> Iterator[tuple[OpView, np.float32]]:
    """The products of Int8 tensors of known scales, with the factor from a product to steps of the result."""
    known = {name: scale for name, (scale, _) in drawn.quantized.items()}
    for op in all_operators(NetView(drawn.net)):
        scales = [known[name] for name in op.inputs[:2] if name in known]
        scale = op.args.number("Y_scale", default=1.0)
        if op.type.startswith("Int8") and op.outputs:
            known[op.outputs[0]] = scale
        if op.type in INT8_PRODUCTS and len(scales) == 2 and len(op.inputs) > 2:
            yield op, np.prod(np.array(scales, np.float32)) / np.float32(scale)


def has_both_zeros(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether an operand has a negative zero."""
    return any(
        array.dtype.kind == "f" and bool((np.signbit(array) & (array == 0)).any()) for array in drawn.inputs.values()
    )


def has_large_angles(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a position, or one over a base below 1, is beyond 300."""
    bases = [
        op.args.number("alpha", default=10000.0)
        for op in all_operators(NetView(drawn.net))
        if op.type == "SinusoidPositionEncoding"
    ]
    limit = 300 * min((base for base in bases if 0 <= base < 1), default=1.0)
    return any(array.size and bool((np.abs(array.astype(np.float64)) > limit).any()) for array in drawn.inputs.values())


def has_many_equal_scores(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether elements of a vector of more than 16 are equal; of fewer, the sort of C++'s library keeps the order."""
    return any(array.ndim == 1 and 16 < array.size > np.unique(array).size for array in drawn.inputs.values())


def has_other_characters(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a string has characters beyond ASCII."""
    return any(array.dtype == object and not "".join(array.ravel()).isascii() for array in drawn.inputs.values())


def averages_nothing(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether an operand has no elements."""
    return any(not array.size for array in drawn.inputs.values())


def has_no_sequences(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether a tensor of three dims, [steps, batch, features] or [batch, steps, features], may have no sequences."""
    first = any(op.type == "InferenceLSTM" for op in drawn.net.op)
    return any(array.ndim == 3 and 0 in array.shape[not first : 2] for array in drawn.inputs.values())


def multiplies_nothing(drawn: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether an operand has no elements, and results differ only where a sum of nothing is expected."""
    return averages_nothing(drawn, expected, actual) and _differs_at(expected, actual, lambda one, _: one == 0)


def has_negative_numbers(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether an integer is negative."""
    return any(array.dtype.kind == "i" and bool((array < 0).any()) for array in drawn.inputs.values())


def is_resized_otherwise(drawn: Drawn, _: Arrays, __: Arrays) -> bool:
    """Whether the gradient does not have the sizes of the resized image, or a scale is no positive number."""
    for op in drawn.net.op:
        for one in (op, *(inner for arg in op.arg for inner in arg.n.op)):
            if not one.type.startswith("ResizeNearest"):
                continue
            image, gradient = drawn.inputs.get(one.input[1]), drawn.inputs.get(one.input[0])
            if image is None or gradient is None:  # made by operators that keep sizes
                return True
            names = ("temporal_scale", "height_scale", "width_scale")[-(image.ndim - 2) :]
            known = {arg.name: arg.f for arg in one.arg}
            given = drawn.inputs.get(one.input[2]) if len(one.input) > 2 else None
            scales = [known.get(name, 1.0) for name in names] if given is None else given.tolist()
            sizes = image.shape[1:-1] if any(arg.s == b"NHWC" for arg in one.arg) else image.shape[2:]
            there = gradient.shape[1:-1] if any(arg.s == b"NHWC" for arg in one.arg) else gradient.shape[2:]
            if not all(0 < scale < np.inf for scale in scales) or any(
                int(n * s) != m for n, s, m in zip(sizes, scales, there, strict=False)
            ):
                return True
    return False


def differs_in_types_of_nothing(_: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether results without elements differ in element type, and nothing else does."""
    pairs = [(one, actual[name]) for name, one in expected.items()]
    return any(one.dtype != other.dtype for one, other in pairs) and all(
        one.shape == other.shape
        and (not one.size or (one.dtype == other.dtype and not mismatches({"": one}, {"": other})))
        for one, other in pairs
    )


def is_retyped_in_place(drawn: Drawn, expected: Arrays, _: Arrays) -> bool:
    """Whether an operator gives the operand that it overwrites another element type."""
    retyped = {
        name for name, array in expected.items() if name in drawn.inputs and array.dtype != drawn.inputs[name].dtype
    }
    return any(not retyped.isdisjoint({*op.input} & {*op.output}) for op in drawn.net.op)


def has_float_zeros(drawn: Drawn, expected: Arrays, actual: Arrays) -> bool:
    """Whether results, for operands that are not float32 and of which one has no elements, are float32 all the same.

    They are zeros, and what other operators make of zeros.
    """
    others = any(array.dtype != np.float32 for array in drawn.inputs.values())
    return (
        others
        and averages_nothing(drawn, expected, actual)
        and all(
            one.dtype == np.float32 and not mismatches({"": one}, {"": actual[name].astype(np.float32)})
            for name, one in expected.items()
        )
    )
