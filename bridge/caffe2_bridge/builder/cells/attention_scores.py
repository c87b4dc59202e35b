"""Compute attention: the weights of encoder outputs for a decoder's hidden state, and the resulting context.

S is the number of encoder outputs, E their size, N the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from caffe2_bridge.builder.layers import fc
from caffe2_bridge.builder.net import Net
from caffe2_bridge.builder.scope import Blob

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class AttentionType(StrEnum):
    """How the logit of an encoder output ``e`` is computed from the hidden state ``h``.

    * ``REGULAR``: ``v . tanh(FC(h) + W e)``
    * ``RECURRENT``: like ``REGULAR``, with an FC of the previous context added in the tanh
    * ``DOT``: ``h . e``, or ``FC(h) . e`` if their sizes differ
    * ``SOFT_COVERAGE``: like ``REGULAR``, with the sum of the previous weights times an FC of ``e`` added in the tanh
    """

    REGULAR = "regular"
    RECURRENT = "recurrent"
    DOT = "dot"
    SOFT_COVERAGE = "soft_coverage"


@dataclass(frozen=True, slots=True)
class Encoded:
    """The encoder outputs in the forms that all steps read.

    Attributes:
        size: E.
        transposed: the outputs, [N, E, S].
        lengths: the number of valid outputs, int32 [N]; None if all are valid.
        weighted: their projection, [S, N, E]; None for DOT.
        coverage_weights: their projection for the coverage, [S, N, E]; None unless SOFT_COVERAGE.
    """

    size: int
    transposed: Blob
    lengths: Blob | None
    weighted: Blob | None
    coverage_weights: Blob | None


@dataclass(frozen=True, slots=True)
class Query:
    """The query: the hidden state [1, N, size] after the step, and the context and coverage before it."""

    hidden: Blob
    size: int
    context_before: Blob
    coverage_before: Blob | None


@dataclass(frozen=True, slots=True)
class Attended:
    """The result: context [1, N, E], weights [N, S, 1], coverage [1, N, S], and the blobs that may be recomputed."""

    context: Blob
    weights: Blob
    coverage: Blob | None
    recompute: tuple[Blob, ...]


def attend(net: Net, kind: AttentionType, encoded: Encoded, query: Query) -> Attended:
    """Add the operators of one step's attention, in the current scope."""
    logits, recompute = _LOGITS[kind](net, encoded, query)
    if encoded.lengths is not None:
        logits = net.op("SequenceMask", (logits, encoded.lengths), "masked_attention_logits", mode="sequence")
    weights = net.op("Softmax", logits, "attention_weights_3d", axis=1)
    context = net.op("BatchMatMul", (encoded.transposed, weights), "attention_weighted_encoder_context")
    net.op("Reshape", context, (context, context + "_old_shape"), shape=[1, -1, encoded.size])
    coverage = None
    if query.coverage_before is not None:
        flat = net.op("Squeeze", weights, "attention_weights_2d", dims=[2])
        coverage = net.op("Add", (query.coverage_before, flat), "coverage_t", broadcast=1)
    return Attended(context, weights, coverage, recompute)


def _project(net: Net, blob: Blob, name: str, size: int, out_size: int) -> Blob:
    """Project [1, N, size] to [N, out_size]."""
    projected = fc(net, blob, name, size, out_size, axis=2)
    return net.op("Squeeze", projected, projected, dims=[0])


def _hidden(net: Net, encoded: Encoded, query: Query) -> Blob:
    return _project(net, query.hidden, "weighted_decoder_hidden_state", query.size, encoded.size)


def _regular(net: Net, encoded: Encoded, query: Query) -> tuple[Blob, tuple[Blob, ...]]:
    hidden = _hidden(net, encoded, query)
    return _logits(net, encoded, _sum(net, encoded, hidden, "decoder_hidden_encoder_outputs_sum"))


def _recurrent(net: Net, encoded: Encoded, query: Query) -> tuple[Blob, tuple[Blob, ...]]:
    before = _project(net, query.context_before, "weighted_prev_attention_context", encoded.size, encoded.size)
    hidden = _hidden(net, encoded, query)
    both = net.op("Add", (before, hidden), "decoder_hidden_encoder_outputs_sum_tmp")
    return _logits(net, encoded, _sum(net, encoded, both, "decoder_hidden_encoder_outputs_sum"))


def _dot(net: Net, encoded: Encoded, query: Query) -> tuple[Blob, tuple[Blob, ...]]:
    hidden = query.hidden
    if query.size != encoded.size:
        hidden = fc(net, hidden, "weighted_decoder_hidden_state", query.size, encoded.size, axis=2)
    column = net.op("Squeeze", hidden, "squeezed_weighted_decoder_hidden_state", dims=[0])
    net.op("ExpandDims", column, column, dims=[2])
    return net.op("BatchMatMul", (encoded.transposed, column), "attention_logits", trans_a=1), ()


def _soft_coverage(net: Net, encoded: Encoded, query: Query) -> tuple[Blob, tuple[Blob, ...]]:
    assert query.coverage_before is not None
    assert encoded.coverage_weights is not None
    hidden = _hidden(net, encoded, query)
    partial = _sum(net, encoded, hidden, "decoder_hidden_encoder_outputs_sum_tmp")
    flat = net.op("Squeeze", query.coverage_before, "coverage_t_prev_2d", dims=[0])
    column = net.op("Transpose", flat, "coverage_t_prev_transposed")
    scaled = net.op("Mul", (encoded.coverage_weights, column), "scaled_coverage_weights", broadcast=1, axis=0)
    return _logits(net, encoded, net.op("Add", (partial, scaled), "decoder_hidden_encoder_outputs_sum"))


def _sum(net: Net, encoded: Encoded, hidden: Blob, name: str) -> Blob:
    """Add [S, N, E] and [N, E]."""
    assert encoded.weighted is not None
    return net.op("Add", (encoded.weighted, hidden), name, broadcast=1)


def _logits(net: Net, encoded: Encoded, summed: Blob) -> tuple[Blob, tuple[Blob, ...]]:
    """Return ``v . tanh(sum)``, [N, S, 1], and the blobs that may be recomputed."""
    net.op("Tanh", summed, summed)
    logits = fc(net, summed, "attention_logits", encoded.size, 1, axis=2)
    return net.op("Transpose", logits, "attention_logits_transposed", axes=[1, 0, 2]), (summed,)


_LOGITS: Final[Mapping[AttentionType, Callable[[Net, Encoded, Query], tuple[Blob, tuple[Blob, ...]]]]] = (
    MappingProxyType(
        {
            AttentionType.REGULAR: _regular,
            AttentionType.RECURRENT: _recurrent,
            AttentionType.DOT: _dot,
            AttentionType.SOFT_COVERAGE: _soft_coverage,
        }
    )
)
