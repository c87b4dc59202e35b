"""Lookups in tables and optimizers on their rows, as loops: a repeated id sees the row as the one before it left it.

They are compiled by numba, once for a machine, and are ordinary Python without it. Tables are [R, W], moments of rows
[R, 1], gradients [K, W] and ids [K]; all numbers are float32, in Caffe2's order of operations; where all elements of a
row are added to one number, several at once, as Caffe2's kernels do. Segments are given by int32 lengths [S], and what
belongs to a segment is [S, W]; weights are [K], or of one element that all rows have.

An id is read once, before the row: else it would be read again after each write, which might have changed it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


@functools.cache
def is_available() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


@functools.cache
def compiled(kernel: Callable[..., T]) -> Callable[..., T]:
    """Return a kernel as machine code, which is kept on the disk. The lock of Python is released while it runs."""
    numba: Any = importlib.import_module("numba")
    fast = {"reassoc"} if kernel in (row_adagrad, row_adam, weight_gradients, wngrad) else False
    made: Callable[..., T] = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=fast)(kernel)
    return made


def are_rows(ids: Any, least: int, rows: int) -> bool:
    """Whether all ids are rows of a table, from ``least`` on."""
    for k in range(ids.size):  # noqa: SIM110 - compiled: a generator is not
        if ids[k] < least or ids[k] >= rows:
            return False
    return True


def take_rows(ids: Any, table: Any, out: Any) -> None:
    """Take the row of each id, [K, W]; negative ones count from the end."""
    for k in range(ids.size):
        i = ids[k]
        for j in range(table.shape[1]):
            out[k, j] = table[i, j]


def look_up(ids: Any, lengths: Any, table: Any, weights: Any, is_mean: bool, out: Any) -> bool:
    """Return the weighted sums of the rows of segments, or their means; False for operands that do not fit."""
    width, at, last = table.shape[1], 0, weights.size - 1
    for s in range(lengths.size):
        end = at + lengths[s]
        if end < at or end > ids.size:
            return False
        for j in range(width):
            out[s, j] = 0
        for k in range(at, end):
            i, weight = ids[k], weights[min(k, last)]
            if i < 0 or i >= table.shape[0]:
                return False
            for j in range(width):
                out[s, j] += table[i, j] * weight
        if is_mean and end > at:
            scale = np.float32(1) / np.float32(end - at)
            for j in range(width):
                out[s, j] *= scale
        at = end
    return bool(at == ids.size)


def look_up_bytes(ids: Any, lengths: Any, table: Any, weights: Any, is_mean: bool, out: Any) -> bool:
    """Return what ``look_up`` does, of fused rows: bytes [R, W + 8], codes followed by a scale and a bias, float32."""
    at, last, width = 0, weights.size - 1, out.shape[1]
    for s in range(lengths.size):
        end = at + lengths[s]
        if end < at or end > ids.size:
            return False
        for j in range(width):
            out[s, j] = 0
        for k in range(at, end):
            i, weight = ids[k], weights[min(k, last)]
            if i < 0 or i >= table.shape[0]:
                return False
            scale_bits, bias_bits = np.uint32(0), np.uint32(0)
            for b in range(4):
                scale_bits |= np.uint32(table[i, width + b]) << np.uint32(8 * b)
                bias_bits |= np.uint32(table[i, width + 4 + b]) << np.uint32(8 * b)
            scale = np.uint32(scale_bits).view(np.float32) * weight
            bias = np.uint32(bias_bits).view(np.float32) * weight
            for j in range(width):
                out[s, j] += np.float32(table[i, j]) * scale + bias
        if is_mean and end > at:
            mean = np.float32(1) / np.float32(end - at)
            for j in range(width):
                out[s, j] *= mean
        at = end
    return bool(at == ids.size)


def look_up_packed(
    ids: Any, lengths: Any, table: Any, halves: Any, weights: Any, bits: int, is_mean: bool, out: Any
) -> bool:
    """Return what ``look_up_bytes`` does, of codes of fewer bits, the first in the lowest, and float16 [R, B + 4].

    ``halves``: the float32 of all bits of a float16.
    """
    at, last = 0, weights.size - 1
    each, mask = 8 // bits, np.uint8((1 << bits) - 1)
    width = out.shape[1] // each
    sums = np.empty((each, width), np.float32)  # of the codes in each place of their bytes
    for s in range(lengths.size):
        end = at + lengths[s]
        if end < at or end > ids.size:
            return False
        sums[:] = 0
        for k in range(at, end):
            i, weight = ids[k], weights[min(k, last)]
            if i < 0 or i >= table.shape[0]:
                return False
            scale = halves[table[i, width] | np.uint16(table[i, width + 1]) << np.uint16(8)] * weight
            bias = halves[table[i, width + 2] | np.uint16(table[i, width + 3]) << np.uint16(8)] * weight
            for slot in range(each):
                shift = np.uint8(slot * bits)
                for b in range(width):
                    sums[slot, b] += np.float32((table[i, b] >> shift) & mask) * scale + bias
        mean = np.float32(1) / np.float32(end - at) if is_mean and end > at else np.float32(1)
        for slot in range(each):
            for b in range(width):
                out[s, b * each + slot] = sums[slot, b] * mean
        at = end
    return bool(at == ids.size)


def spread(lengths: Any, grads: Any, weights: Any, is_mean: bool, out: Any) -> bool:
    """Return the gradients of the rows of segments, [K, W], from the segments'; False if operands do not fit."""
    at, last = 0, weights.size - 1
    for s in range(lengths.size):
        end = at + lengths[s]
        if end < at or end > out.shape[0]:
            return False
        for k in range(at, end):
            scale = weights[min(k, last)]
            if is_mean:
                scale = np.float32(1) / np.float32(end - at)
            for j in range(out.shape[1]):
                out[k, j] = grads[s, j] * scale
        at = end
    return bool(at == out.shape[0])


def weight_gradients(ids: Any, lengths: Any, table: Any, grads: Any, out: Any) -> bool:
    """Return the gradients of the weights of rows, [K]: products with their segment's; False if operands do not fit."""
    at = 0
    for s in range(lengths.size):
        end = at + lengths[s]
        if end < at or end > ids.size:
            return False
        for k in range(at, end):
            i, total = ids[k], np.float32(0)
            if i < 0 or i >= table.shape[0]:
                return False
            for j in range(table.shape[1]):
                total += table[i, j] * grads[s, j]
            out[k] = total
        at = end
    return bool(at == ids.size)


def adagrad(ids: Any, grads: Any, table: Any, moment: Any, lr: Any, epsilon: Any, decay: Any) -> None:
    """SparseAdagrad."""
    for k in range(ids.size):
        i = ids[k]
        for j in range(table.shape[1]):
            grad = grads[k, j]
            if decay != 0:
                grad = table[i, j] * decay + grad
            grown = moment[i, j] + grad * grad
            moment[i, j] = grown
            table[i, j] += grad * (lr / (np.sqrt(grown) + epsilon))


def row_adagrad(ids: Any, grads: Any, table: Any, moment: Any, lr: Any, epsilon: Any, decay: Any) -> None:
    """RowWiseSparseAdagrad."""
    width = table.shape[1]
    for k in range(ids.size):
        i = ids[k]
        total = np.float32(0)
        for j in range(width):
            grad = table[i, j] * decay + grads[k, j] if decay != 0 else grads[k, j]
            total += grad * grad
        moment[i, 0] += total / np.float32(width)
        rate = lr / (np.sqrt(moment[i, 0]) + epsilon)
        for j in range(width):
            grad = table[i, j] * decay + grads[k, j] if decay != 0 else grads[k, j]
            table[i, j] += grad * rate


def adam(
    ids: Any, grads: Any, table: Any, moment1: Any, moment2: Any,
    rate: Any, beta1: Any, beta2: Any, epsilon: Any, divides: bool,
) -> None:  # fmt: skip
    """SparseAdam; ``rate`` has all corrections, and without ``divides`` the second moment has no part in the step."""
    one = np.float32(1)
    for k in range(ids.size):
        i = ids[k]
        for j in range(table.shape[1]):
            grad = grads[k, j]
            first = moment1[i, j] * beta1 + grad * (one - beta1)
            second = moment2[i, j] * beta2 + grad * grad * (one - beta2)
            moment1[i, j], moment2[i, j] = first, second
            table[i, j] += first * rate / (np.sqrt(second) + epsilon) if divides else first * rate


def row_adam(
    ids: Any, grads: Any, table: Any, moment1: Any, moment2: Any, rate: Any, beta1: Any, beta2: Any, epsilon: Any
) -> None:
    """RowWiseSparseAdam."""
    one, width = np.float32(1), table.shape[1]
    for k in range(ids.size):
        i = ids[k]
        total = np.float32(0)
        for j in range(width):
            total += grads[k, j] * grads[k, j]
        moment2[i, 0] = moment2[i, 0] * beta2 + total / np.float32(width) * (one - beta2)
        divisor = np.sqrt(moment2[i, 0]) + epsilon
        for j in range(width):
            moment1[i, j] = moment1[i, j] * beta1 + grads[k, j] * (one - beta1)
            table[i, j] += moment1[i, j] * rate / divisor


def momentum(ids: Any, grads: Any, moment: Any, table: Any, lr: Any, factor: Any, nesterov: Any, adjusted: Any) -> None:
    """SparseMomentumSGDUpdate; ``adjusted`` [K, W] is overwritten with the steps."""
    for k in range(ids.size):
        i = ids[k]
        for j in range(table.shape[1]):
            before = moment[i, j]
            new = grads[k, j] * lr + before * factor
            step = new * (np.float32(1) + factor) - before * factor if nesterov else new
            moment[i, j] = new
            adjusted[k, j] = step
            table[i, j] -= step


def ftrl(
    ids: Any, grads: Any, table: Any, pairs: Any, alpha_inverse: Any, beta: Any, lambda1: Any, lambda2: Any
) -> None:
    """SparseFtrl; ``pairs`` [R, 2 W] has n and z of each element."""
    for k in range(ids.size):
        i = ids[k]
        for j in range(table.shape[1]):
            grad, n = grads[k, j], pairs[i, 2 * j]
            grown = n + grad * grad
            root = np.sqrt(grown)
            z = pairs[i, 2 * j + 1] + grad - (root - np.sqrt(n)) * alpha_inverse * table[i, j]
            pairs[i, 2 * j], pairs[i, 2 * j + 1] = grown, z
            table[i, j] = 0
            if np.abs(z) > lambda1:
                table[i, j] = (lambda1 * np.sign(z) - z) / ((beta + root) * alpha_inverse + lambda2)


def wngrad(ids: Any, grads: Any, table: Any, sequence: Any, lr: Any, epsilon: Any) -> None:
    """SparseWngrad; ``sequence`` is one number."""
    total, divisor = np.float32(0), sequence[0] + epsilon
    for k in range(ids.size):
        i = ids[k]
        for j in range(table.shape[1]):
            grad = grads[k, j]
            table[i, j] += lr * grad / divisor
            total += grad * grad
    sequence[0] += total / sequence[0]


def storm(ids: Any, grads: Any, table: Any, moment: Any, squares: Any, lr: Any, momentum: Any, beta: Any) -> None:
    """SparseStorm; ``squares`` is one number, the sum of the squares of all gradients so far."""
    total = np.float32(0)
    for k in range(ids.size):
        for j in range(table.shape[1]):
            total += grads[k, j] * grads[k, j]
    squares[0] += total
    rate = lr * np.float32(np.power(squares[0] + beta, np.float32(-1 / 3)))
    share = rate * rate * momentum
    for k in range(ids.size):
        i = ids[k]
        for j in range(table.shape[1]):
            moment[i, j] += (grads[k, j] - moment[i, j]) * share
            table[i, j] += moment[i, j] * rate


def adadelta(ids: Any, grads: Any, table: Any, moment: Any, delta: Any, lr: Any, epsilon: Any, decay: Any) -> None:
    """SparseAdadelta."""
    rest = np.float32(1) - decay
    for k in range(ids.size):
        i = ids[k]
        for j in range(table.shape[1]):
            grad = grads[k, j]
            mean, before = moment[i, j] * decay + grad * rest * grad, delta[i, j]
            step = np.sqrt(before + epsilon) / np.sqrt(mean + epsilon) * grad
            moment[i, j], delta[i, j] = mean, before * decay + step * rest * step
            table[i, j] += step * lr


def scale_rows(ids: Any, table: Any, weight: Any) -> None:
    """Multiply rows, once per occurrence of their id."""
    for k in range(ids.size):
        i = ids[k]
        for j in range(table.shape[1]):
            table[i, j] *= weight


def add_rows(ids: Any, rows: Any, table: Any, weight: Any) -> None:
    """Add rows times a weight."""
    for k in range(ids.size):
        i = ids[k]
        for j in range(table.shape[1]):
            table[i, j] += rows[k, j] * weight
