"""What native code takes for granted of ONNX nodes: with other attributes or operands, onnxruntime ends the process.

The tables are those of onnxruntime 1.31, found by trying every attribute and every dim of ONNX's operator tests, and of
models of onnxruntime's own operators, on the CPU. They are read where models come in
(:mod:`caffe2_backend.admission`), where nets with ONNX operators are exported, and before each session, where the dims
of inputs and of computed operands are known (:mod:`caffe2_backend.runtime.sessions.guard`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import onnx

from caffe2_bridge.bounds import MAX_RANK
from caffe2_frontend.interop.domains import plain_domain

Dims = Sequence[int | str | None]
Key = tuple[str, str]

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
# Of those, the ranks of the first operand at which the count is not optional.
_COUNTED_RANKS: Final[Mapping[Key, int]] = {("", "Attention"): 3}
# Numbers of dims: ONNX's shape inference reads those from a negative one on, too.
_NOT_NEGATIVE: Final = frozenset({("GatherND", "batch_dims")})
# By operator: operands that must have elements along some axes, a range for all of these that there are, None for all.
Axes = tuple[int, ...] | range | None
_SPATIAL: Final = range(2, MAX_RANK)
_FILLED: Final[Mapping[Key, Mapping[int, Axes]]] = {
    ("", "Conv"): {1: None}, ("", "ConvTranspose"): {1: None}, ("", "ConvInteger"): {1: None},
    ("", "InstanceNormalization"): {0: _SPATIAL},
    ("", "LSTM"): {0: (1,)}, ("", "GRU"): {0: None}, ("", "STFT"): {2: None},
    (_MICROSOFT, "DynamicQuantizeLSTM"): {0: None}, (_MICROSOFT, "AttnLSTM"): {0: None},
    (_MICROSOFT, "FusedConv"): {1: None}, (_MICROSOFT, "GroupQueryAttention"): {0: (0,)},
    (_MICROSOFT, "Inverse"): {0: None}, (_MICROSOFT, "MoE"): {0: None}, (_MICROSOFT, "QMoE"): {0: None},
    (_MICROSOFT, "MultiHeadAttention"): {0: (-1,), 1: (-1,), 2: (-1,)},
    (_MICROSOFT, "RotaryEmbedding"): {0: (-1,)},
    (_MICROSOFT, "SkipLayerNormalization"): {1: None}, (_MICROSOFT, "SkipSimplifiedLayerNormalization"): {1: None},
}  # fmt: skip
# The same where another operand is given: a GRU with the lengths of sequences does not read X without steps.
_FILLED_WITH: Final[Mapping[Key, tuple[int, Mapping[int, Axes]]]] = {("", "GRU"): (4, {0: (1, 2)})}
_FILLED_OF_RANK: Final[Mapping[Key, tuple[int, Mapping[int, Axes]]]] = {
    ("", "Attention"): (4, {0: (1,), 1: (1,), 2: (1,)}),
    ("", "ConvTranspose"): (5, {0: (2, 3)}),
}
# Operators of whose operands the ranks tell what they need.
NEED_RANKS: Final = frozenset(_FILLED_OF_RANK)
_GIVEN: Final[Mapping[Key, tuple[int, ...]]] = {(_MICROSOFT, "AttnLSTM"): (8, 9, 10, 11)}
_RANKS: Final[Mapping[Key, Mapping[int, int]]] = {("", "Attention"): {4: 4, 5: 4}}
# Operands that must not be scalars.
_TENSORS: Final[Mapping[Key, tuple[int, ...]]] = {("", "DFT"): (0,), ("", "GridSample"): (0, 1)}
# Operators whose operands have one rank: without elements, those of another one are not refused.
JOINED: Final = frozenset({("", "Concat")})
# Operands that list sizes: the inference of onnxruntime makes as many dims.
_LISTS: Final[Mapping[Key, tuple[int, ...]]] = {
    ("", "AffineGrid"): (1,), ("", "Col2Im"): (1, 2), ("", "ConstantOfShape"): (0,), ("", "Expand"): (1,),
    ("", "Reshape"): (1,), ("", "Resize"): (3,),
}  # fmt: skip
# Operands that kernels divide by.
_DIVISORS: Final[Mapping[Key, tuple[int, ...]]] = {("", "STFT"): (1, 3)}
# Operators whose random numbers lie between two attributes, and those of which one is the standard deviation.
_UNIFORM: Final = frozenset({("", "RandomUniform"), ("", "RandomUniformLike")})
_NORMAL: Final = frozenset({("", "RandomNormal"), ("", "RandomNormalLike")})
_N_GRAMS: Final = ("", "TfIdfVectorizer")
# Operators that are looked at again when the dims of operands are known.
GUARDED: Final = frozenset[Key]().union(_FILLED, _FILLED_OF_RANK, _RANKS, _TENSORS, _DIVISORS, _COUNTED_RANKS)
_READ: Final = GUARDED.union(_GIVEN, _LISTS)


@dataclass(frozen=True, slots=True)
class Need:
    """What an operand must be for the process to survive.

    Attributes:
        operand: its index.
        axes: the axes along which it must have elements, a range for those of these that there are; None: all.
        rank: the number of dims that it must have, None for any.
        has_dims: whether it must not be a scalar.
        is_divisor: whether it must be one positive number instead.
    """

    operand: int
    axes: Axes = ()
    rank: int | None = None
    has_dims: bool = False
    is_divisor: bool = False

    def fault(self, dims: Dims) -> str:
        """Return why an operand of known rank is not that, empty where it may be."""
        if self.is_divisor:
            is_bad = any(isinstance(dim, int) and dim != 1 for dim in dims)
        elif self.rank is not None:
            is_bad = len(dims) != self.rank
        elif self.has_dims:
            is_bad = not dims
        else:
            is_bad = any(dims[axis] == 0 for axis in self.within(len(dims)))
        shown = ["?" if dim is None else dim for dim in dims]
        return f"input {self.operand} {self.text}, and has the shape {shown}" if is_bad else ""

    @property
    def text(self) -> str:
        """What it must be, after the name of the operand."""
        if self.is_divisor:
            return "must be one positive number"
        if self.rank is not None:
            return f"must have rank {self.rank}"
        if self.has_dims:
            return "must not be a scalar"
        if self.axes is None:
            return "must not have a dim of size 0"
        if isinstance(self.axes, range):
            return f"must have elements along all axes from {self.axes.start} on"
        return f"must have elements along {'axis' if len(self.axes) == 1 else 'axes'} {', '.join(map(str, self.axes))}"

    def within(self, rank: int) -> list[int]:
        """Return the axes along which an operand of a rank must have elements."""
        if self.axes is None:
            return list(range(rank))
        return [axis % rank for axis in self.axes if -rank <= axis < rank]


def key_of(node: onnx.NodeProto) -> Key:
    """Return the key of a node's operator in the tables here."""
    return operator_key(node.domain, node.op_type)


def operator_key(domain: str, op_type: str) -> Key:
    """Return the key of an operator in the tables here."""
    return plain_domain(domain), op_type


def reads_dims(key: Key) -> bool:
    """Whether :func:`operand_faults` looks at the operands of an operator."""
    return key in _READ


def attribute_faults(key: Key, integers: Mapping[str, int], floats: Mapping[str, float]) -> Iterator[str]:
    """Yield the faults of the attributes of an operator of ONNX or of onnxruntime that are numbers."""
    domain, op_type = key
    if domain not in ("", _MICROSOFT):
        return
    for name, value in integers.items():
        least = 0 if (op_type, name) in _OPTIONAL else 1
        if name in _COUNTS and not least <= value < _BOUND:
            yield f"attribute {name!r} must be from {least} to {_BOUND - 1}, not {value}"
        elif (op_type, name) in _NOT_NEGATIVE and value < 0:
            yield f"attribute {name!r} must not be negative, and is {value}"
        elif name not in _WIDE and not -_BOUND <= value < _BOUND:
            yield f"attribute {name!r} must fit into 32 bits, not {value}"
    low, high, scale = floats.get("low", 0.0), floats.get("high", 1.0), floats.get("scale", 1.0)
    if key in _UNIFORM and not low <= high:
        yield f"attribute 'high' must not be below 'low', {low}, but is {high}"
    if key in _NORMAL and not scale > 0:
        yield f"attribute 'scale' must be positive, not {scale}"


def list_faults(key: Key, lists: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Yield the faults of the list attributes of an operator: of TfIdfVectorizer, which counts n-grams by them.

    Those of n elements lie in the pool from the n-th of ``ngram_counts`` to the next one, and each has an index. What
    is no such pool, onnxruntime refuses itself.
    """
    counts, indexes = lists.get("ngram_counts", ()), len(lists.get("ngram_indexes", ()))
    if key != _N_GRAMS or not counts:
        return
    ends = [*counts[1:], len(lists.get("pool_int64s", ()) or lists.get("pool_strings", ()))]
    bounds = list(zip(counts, ends, strict=True))
    n_grams = sum((end - start) // n for n, (start, end) in enumerate(bounds, 1))
    if indexes < n_grams and all(0 <= start <= end for start, end in bounds):
        yield f"attribute 'ngram_indexes' must have an element for each of {n_grams} n-grams, and has {indexes}"


def needs_of(key: Key, given: Sequence[bool], ranks: Sequence[int | None]) -> Iterator[Need]:
    """Yield what the operands of a node must be.

    Args:
        key: of the operator.
        given: for each operand that the node lists, whether it is not left out.
        ranks: of the operands, as far as they are known.
    """
    table = _FILLED.get(key, {})
    if key in _FILLED_WITH and _has(given, _FILLED_WITH[key][0]):
        table = _FILLED_WITH[key][1]
    rank, of_rank = _FILLED_OF_RANK.get(key, (0, {}))
    for index in (index for index, is_given in enumerate(given) if is_given):
        if index in table:
            yield Need(index, table[index])
        if index in of_rank and ranks[index] == rank:
            yield Need(index, of_rank[index])
        if index in _RANKS.get(key, {}):
            yield Need(index, rank=_RANKS[key][index])
        if index in _TENSORS.get(key, ()):
            yield Need(index, has_dims=True)
        if index in _DIVISORS.get(key, ()):
            yield Need(index, is_divisor=True)


def operand_faults(
    key: Key, integers: Mapping[str, int], given: Sequence[bool], operands: Sequence[Dims | None]
) -> Iterator[str]:
    """Yield the faults of the operands of an operator, by their dims.

    Args:
        key: of the operator.
        integers: its integer attributes.
        given: for each operand that the node lists, whether it is not left out.
        operands: the dims of each; None is an operand of unknown rank, or a dim of unknown size.
    """
    for index in _GIVEN.get(key, ()):
        if not _has(given, index):
            yield f"input {index} is missing"
            return
    first = operands[0] if operands else None
    if first is not None and _COUNTED_RANKS.get(key) == len(first):
        for name, value in integers.items():
            if name in _COUNTS and value < 1:
                yield f"attribute {name!r} must be at least 1 where input 0 has rank {len(first)}, not {value}"
    for index in _LISTS.get(key, ()):
        dims = operands[index] if index < len(operands) else None
        length = dims[0] if dims else None
        if isinstance(length, int) and length > MAX_RANK:
            yield f"input {index} lists {length:,} sizes; at most {MAX_RANK} are supported"
    for need in needs_of(key, given, [None if dims is None else len(dims) for dims in operands]):
        dims = operands[need.operand]
        reason = "" if dims is None else need.fault(dims)
        if reason:
            yield reason


def _has(given: Sequence[bool], index: int) -> bool:
    return index < len(given) and given[index]
