"""A translator: an LSTM reads, another one writes and attends to what was read.

Writes a model folder, with weights that are not trained: python models/seq2seq.py FOLDER
"""

from __future__ import annotations

import sys

import caffe2_bridge as c2
from caffe2_bridge.builder import AttentionCell, AttentionType, LSTMCell, Net, fc


def build(
    source: int = 60,
    target: int = 50,
    embedding: int = 12,
    hidden: int = 20,
    *,
    seed: int = 0,
    attention: AttentionType = AttentionType.REGULAR,
) -> Net:
    """``source`` int32 [S, N] and ``target`` int32 [T, N], with their lengths, to ``probabilities`` [T, N, target]."""
    net = Net("seq2seq", seed=seed)
    net.add_external_input("source", "source_lengths", "target", "target_lengths")
    read = net.Gather([net.param("source_embedding", (source, embedding)), "source"], "source_embedded")
    written = net.Gather([net.param("target_embedding", (target, embedding)), "target"], "target_embedded")

    encoder = LSTMCell(name="encoder", input_size=embedding, hidden_size=hidden, forward_only=True)
    outputs, (_, hidden_last, _, cell_last) = encoder.apply_over_sequence(net, read, "source_lengths")

    decoder = AttentionCell(
        name="decoder",
        decoder=LSTMCell(name="decoder/lstm", input_size=embedding, hidden_size=hidden, forward_only=True),
        encoder_outputs=outputs,
        encoder_output_size=hidden,
        encoder_lengths="source_lengths",
        attention_type=attention,
        forward_only=True,
    )
    context = net.param("decoder/first_context", (hidden,))
    states = [hidden_last, cell_last, context]
    if attention == AttentionType.SOFT_COVERAGE:
        states.append(decoder.initial_coverage(net))
    decoded, _ = decoder.apply_over_sequence(net, written, "target_lengths", states)
    logits = fc(net, decoded, "logits", decoder.output_size, target, axis=2)
    net.Softmax(logits, "probabilities", axis=2)
    net.add_external_output("probabilities")
    return net


if __name__ == "__main__":
    c2.save(build().model(), sys.argv[1])
    print(f"wrote {sys.argv[1]}")
