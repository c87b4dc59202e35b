"""What native code takes for granted of ONNX nodes: with other attributes or operands, onnxruntime ends the process.

The tables are those of onnxruntime 1.31, found by trying every attribute and every dim of ONNX's operator tests, and of
models of onnxruntime's own operators, on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from caffe2_frontend.interop.domains import STANDARD_DOMAINS

Dims = Sequence[int | None]

_MICROSOFT: Final = "com.microsoft"
_BOUND: Final = 1 << 31  # kernels narrow integers to 32 bits, and divide by what is left
# Integers that kernels keep as they are: positions, hashes and constants.
_WIDE: Final = frozenset({"start", "end", "seed", "value_int"})
# Counts of which there is one at least, and where 0 stands for one that is not given.
_COUNTS: Final = frozenset(
    {"blocksize", "group", "kv_num_heads", "ngram_size", "num_groups", "num_heads", "q_num_heads"}
)
_OPTIONAL: Final = frozenset({
    ("Attention", "kv_num_heads"), ("Attention", "q_num_heads"), ("RotaryEmbedding", "num_heads"),
})  # fmt: skip
# By operator: operands that must have elements along some axes, None for all; or that must be given.
_Axes = tuple[int, ...] | None
_FILLED: Final[Mapping[tuple[str, str], Mapping[int, _Axes]]] = {
    ("", "Conv"): {1: None}, ("", "ConvTranspose"): {1: None}, ("", "ConvInteger"): {1: None},
    ("", "LSTM"): {0: None}, ("", "GRU"): {0: None}, ("", "RNN"): {0: None}, ("", "STFT"): {2: None},
    (_MICROSOFT, "DynamicQuantizeLSTM"): {0: None}, (_MICROSOFT, "AttnLSTM"): {0: None},
    (_MICROSOFT, "FusedConv"): {1: None}, (_MICROSOFT, "GroupQueryAttention"): {0: (0,)},
    (_MICROSOFT, "Inverse"): {0: None}, (_MICROSOFT, "MoE"): {0: None}, (_MICROSOFT, "QMoE"): {0: None},
    (_MICROSOFT, "MultiHeadAttention"): {0: (-1,), 1: (-1,), 2: (-1,)},
    (_MICROSOFT, "RotaryEmbedding"): {0: (-1,)},
    (_MICROSOFT, "SkipLayerNormalization"): {1: None}, (_MICROSOFT, "SkipSimplifiedLayerNormalization"): {1: None},
}  # fmt: skip
_FILLED_OF_RANK: Final[Mapping[tuple[str, str], tuple[int, Mapping[int, _Axes]]]] = {
    ("", "Attention"): (4, {0: (1,), 1: (1,), 2: (1,)}),
}
_GIVEN: Final[Mapping[tuple[str, str], tuple[int, ...]]] = {(_MICROSOFT, "AttnLSTM"): (8, 9, 10, 11)}
# Operands that kernels divide by.
DIVISORS: Final[Mapping[tuple[str, str], tuple[int, ...]]] = {("", "STFT"): (1, 3)}


def key_of(domain: str, op_type: str) -> tuple[str, str]:
    """The key of an operator in the tables here."""
    return ("" if domain in STANDARD_DOMAINS else domain), op_type


def reads_dims(key: tuple[str, str]) -> bool:
    """Whether :func:`operand_faults` looks at the operands of an operator."""
    return key in _FILLED or key in _FILLED_OF_RANK or key in _GIVEN


def attribute_faults(key: tuple[str, str], integers: Mapping[str, int]) -> Iterator[str]:
    """The faults of the integer attributes of an operator of ONNX or of onnxruntime."""
    domain, op_type = key
    if domain not in ("", _MICROSOFT):
        return
    for name, value in integers.items():
        least = 0 if (op_type, name) in _OPTIONAL else 1
        if name in _COUNTS and not least <= value < _BOUND:
            yield f"attribute {name!r} must be from {least} to {_BOUND - 1}, not {value}"
        elif name not in _WIDE and not -_BOUND <= value < _BOUND:
            yield f"attribute {name!r} must fit into 32 bits, not {value}"


def operand_faults(key: tuple[str, str], operands: Sequence[Dims | None]) -> Iterator[str]:
    """The faults of the operands of an operator, by their dims.

    None is an operand of unknown rank, or a dim of unknown size. An operand that is left out is given as no operand at
    the end, and as one of unknown rank between others: only the former is found to be missing.
    """
    for index in _GIVEN.get(key, ()):
        if index >= len(operands):
            yield f"input {index} is missing"
            return
    rank, of_rank = _FILLED_OF_RANK.get(key, (0, {}))
    for index, dims in enumerate(operands):
        for table in (_FILLED.get(key, {}), of_rank if dims is not None and len(dims) == rank else {}):
            if dims is not None and index in table and _is_empty(dims, table[index]):
                yield f"input {index} must not have a dim of size 0: {['?' if dim is None else dim for dim in dims]}"


def _is_empty(dims: Dims, axes: _Axes) -> bool:
    if axes is None:
        return 0 in dims
    return any(-len(dims) <= axis < len(dims) and dims[axis] == 0 for axis in axes)
