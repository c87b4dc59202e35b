"""Attention, as onnxruntime fuses it."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from caffe2_backend.definitions.definition import Definition
from caffe2_backend.definitions.family import MICROSOFT, Family

family = Family(MICROSOFT)


@dataclass(frozen=True)
class Heads:
    """What attends to what, each [N, heads, length, size], and what is added to the scores."""

    query: ir.Value
    key: ir.Value
    value: ir.Value
    bias: ir.Value | None = None


@family.defines("Attention")
def attention(define: Definition) -> tuple[ir.Value, ...]:
    """``Attention(input, weights, bias, mask_index, past, attention_bias; num_heads, unidirectional=0, scale)``.

    -> output, present. The columns of the weights are those of queries, keys and values, as many of each, or
    ``qkv_hidden_sizes``; rotary embeddings and masks of other forms than [N], [2 * N], [N, length] and [N, steps,
    length] are not defined.
    """
    if define.integer("do_rotary", 0) or define.has_input(6):
        define.undefined()
    joined = define.add(define("MatMul", define.input(0), define.input(1)), define.optional(2))
    query, key, value, present = _with_past(define, joined, 4)
    return attend(define, Heads(query, key, value, _bias(define, 3, query, key)))[0], present


@family.defines("QAttention")
def quantized_attention(define: Definition) -> tuple[ir.Value, ...]:
    """``QAttention(input, weight, bias, input_scale, weight_scale, mask_index, input_zero, weight_zero, past; ...)``.

    -> output, present: Attention of a product of integers. The attributes are those of Attention.
    """
    if define.integer("do_rotary", 0):
        define.undefined()
    operands = [define.input(0), define.input(1), define.optional(6), define.optional(7)]
    total = define.cast(define("MatMulInteger", *operands), ir.DataType.FLOAT)
    scaled = define("Mul", total, define("Mul", define.input(3), define.input(4)))
    query, key, value, present = _with_past(define, define("Add", scaled, define.input(2)), 8)
    bias = _mask_bias(define, 5, query, key) if define.has_input(5) else None
    return attend(define, Heads(query, key, value, bias))[0], present


def _with_past(define: Definition, joined: ir.Value, past: int) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value]:
    """Return queries, keys and values of the columns of a product, behind those of an operand; and both as one."""
    widths = define.integers("qkv_hidden_sizes")
    if widths:
        define.require_lengths(3, {"qkv_hidden_sizes": widths})
        parts = define.several(3, "Split", joined, define.ints(*widths), axis=-1)
    else:
        parts = define.several(3, "Split", joined, axis=-1, num_outputs=3)
    query, key, value = (split_heads(define, part, define.required("num_heads")) for part in parts)
    if not (define.has_input(past) or define.wants(1)):
        return query, key, value, value
    if define.has_input(past):
        before = define.several(2, "Split", define.input(past), axis=0, num_outputs=2)
        key, value = (
            define("Concat", define("Squeeze", old, define.ints(0)), new, axis=2)
            for old, new in zip(before, (key, value), strict=True)
        )
    present = define("Concat", *(define("Unsqueeze", each, define.ints(0)) for each in (key, value)), axis=0)
    return query, key, value, present


@family.defines("MultiHeadAttention")
def multi_head_attention(define: Definition) -> tuple[ir.Value, ...]:
    """``MultiHeadAttention(query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value; ...)``.

    -> output, present_key, present_value, scores. Keys and values are [N, length, size], or [N, heads, length, size],
    to which no bias is added. Positions in a buffer of keys are not defined.
    """
    if define.has_input(8) and define.rank(1) != 4:
        define.undefined()
    return _of_heads(define, bias=3, mask=4)


@family.defines("DecoderMaskedMultiHeadAttention")
def decoder_masked_attention(define: Definition) -> tuple[ir.Value, ...]:
    """``DecoderMaskedMultiHeadAttention(query, key, value, mask_index, attention_bias, past_key, past_value, ...)``.

    -> output, present_key, present_value, scores: MultiHeadAttention of keys and values of an encoder, [N, heads,
    length, size], with ``bias`` as operand 10. Those of the decoder itself, in a buffer, are not defined.
    """
    if not define.has_input(1) or define.rank(1) != 4 or any(map(define.has_input, (3, 4, 5, 6))):
        define.undefined()
    return _of_heads(define, bias=10, mask=3)


def _of_heads(define: Definition, *, bias: int, mask: int) -> tuple[ir.Value, ...]:
    """Return what queries, keys and values attend to; a bias, masks and a past are at, or from, these operands."""
    heads = define.required("num_heads")
    if define.rank(0) != 3 or not define.has_input(2):  # queries, keys and values packed into one operand
        define.undefined()
    ranks = [define.rank(i) for i in range(3)]
    operands = [define.input(i) for i in range(3)]
    if define.has_input(bias):
        operands = _biased(define, operands, define.input(bias), ranks)
    query, key, value = (
        split_heads(define, each, heads) if rank == 3 else each for each, rank in zip(operands, ranks, strict=True)
    )
    if define.has_input(mask + 2):
        key = define("Concat", define.input(mask + 2), key, axis=2)
        value = define("Concat", define.input(mask + 3), value, axis=2)
    output, scores = attend(define, Heads(query, key, value, _bias(define, mask, query, key)))
    return output, key, value, scores


def _biased(define: Definition, operands: list[ir.Value], bias: ir.Value, ranks: list[int]) -> list[ir.Value]:
    """Return the operands with the bias, whose columns are those of queries, keys and values."""
    widths = [define.dim(each, 2) for each in operands]
    if ranks == [3, 3, 3]:
        biases = define.several(3, "Split", bias, define("Concat", *widths, axis=0), axis=0)
        return [define("Add", each, own) for each, own in zip(operands, biases, strict=True)]
    if 3 in ranks[1:]:
        define.undefined()
    return [define("Add", operands[0], define("Slice", bias, define.ints(0), widths[0])), *operands[1:]]


def split_heads(define: Definition, value: ir.Value, heads: int) -> ir.Value:
    """[N, length, heads * size] as [N, heads, length, size]."""
    return define("Transpose", define.reshape(value, 0, 0, heads, -1), perm=[0, 2, 1, 3])


def attend(define: Definition, heads: Heads) -> tuple[ir.Value, ir.Value]:
    """Return Softmax(scores) * value, [N, length, heads * size], and the scores, scale * query * key^T + bias.

    ``unidirectional`` hides the future.
    """
    query, key, value, bias = heads.query, heads.key, heads.value, heads.bias
    size = define.cast(define.dim(query, 3), ir.DataType.FLOAT)
    scale = define.number("scale", 0.0)
    factor = define.const([scale], ir.DataType.FLOAT) if scale else define("Reciprocal", define("Sqrt", size))
    scaled = define("Mul", query, define("CastLike", factor, query))
    scores = define("MatMul", scaled, define("Transpose", key, perm=[0, 1, 3, 2]))
    if bias is not None:
        scores = define("Add", scores, bias)
    if define.integer("unidirectional", 0):
        scores = define("Add", scores, _future(define, query, key))
    made = define("MatMul", define("Softmax", scores, axis=-1), value)
    return define.reshape(define("Transpose", made, perm=[0, 2, 1, 3]), 0, 0, -1), scores


def _hidden(define: Definition, is_seen: ir.Value, like: ir.Value) -> ir.Value:
    """Return 0 where a mask holds, else the number that hides a score."""
    hidden = define("CastLike", define("Not", is_seen), like)
    return define("Mul", hidden, define.like(define.number("mask_filter_value", -10000.0), like))


def _counted(define: Definition, value: ir.Value, axis: int) -> ir.Value:
    """Return the integers from 0 up to a dim."""
    size = define("Squeeze", define.dim(value, axis), define.ints(0))
    return define("Range", define.const(0), size, define.const(1))


def _future(define: Definition, query: ir.Value, key: ir.Value) -> ir.Value:
    """Return what hides the keys behind each query: the queries are the last of the steps. [steps, length]."""
    behind = define("Sub", define.dim(key, 2), define.dim(query, 2))
    steps = define("Unsqueeze", define("Add", _counted(define, query, 2), behind), define.ints(1))
    seen = define("LessOrEqual", _counted(define, key, 2), steps)
    lowest = -65504.0 if define.dtype(0) == ir.DataType.FLOAT16 else -3.4028234663852886e38  # 0 * -inf is NaN
    return define("Mul", define("CastLike", define("Not", seen), query), define.like(lowest, query))


def _bias(define: Definition, mask: int, query: ir.Value, key: ir.Value) -> ir.Value | None:
    """Return what is added to the scores: for the mask, an operand that may be left out, and the bias of scores."""
    given = define.optional(5)
    return define.add(_mask_bias(define, mask, query, key), given) if define.has_input(mask) else given


def _mask_bias(define: Definition, index: int, query: ir.Value, key: ir.Value) -> ir.Value:
    """Return what a mask adds to the scores: of lengths [N], of elements [N, length] or [N, steps, length].

    [2 * N] are the ends of the rows, and their starts.
    """
    mask = define.cast(define.input(index), ir.DataType.INT64)
    match define.rank(index):
        case 1:
            count = define.dims(index)[0]
            bounds = define.several(2, "Split", mask, num_outputs=2) if _is_twice(count, define.dims(0)[0]) else [mask]
            end, *start = (define.reshape(bound, -1, 1, 1, 1) for bound in bounds)
            place = _counted(define, key, 2)
            seen = define("Less", place, end)
            if start:
                seen = define("And", seen, define("GreaterOrEqual", place, start[0]))
            return _hidden(define, seen, query)
        case 2:
            axes = define.ints(1, 2)
        case 3:
            axes = define.ints(1)
        case _:
            return define.undefined()
    return _hidden(define, define("Greater", define("Unsqueeze", mask, axes), define.const(0)), query)


def _is_twice(count: int | ir.SymbolicDim, batch: int | ir.SymbolicDim) -> bool:
    return isinstance(count, int) and isinstance(batch, int) and count == 2 * batch
