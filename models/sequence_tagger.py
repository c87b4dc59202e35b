"""A tagger: a label for every word, from an LSTM in each direction.

Writes a model folder, with weights that are not trained: python models/sequence_tagger.py FOLDER
"""

from __future__ import annotations

import sys

import caffe2_bridge as c2
from caffe2_bridge.builder import Blob, LSTMCell, Net, concat, fc


def build(words: int = 200, tags: int = 9, embedding: int = 16, hidden: int = 24, *, seed: int = 0) -> Net:
    """``words`` int32 [T, N] and ``seq_lengths`` int32 [N] to ``tags`` [T, N, tags], probabilities."""
    net = Net("sequence_tagger", seed=seed)
    net.add_external_input("words", "seq_lengths")
    embedded = net.Gather([net.param("embedding", (words, embedding)), "words"], "embedded")

    def read(direction: str, sequence: Blob) -> Blob:
        cell = LSTMCell(name=direction, input_size=embedding, hidden_size=hidden, forget_bias=1.0, forward_only=True)
        return cell.apply_over_sequence(net, sequence, "seq_lengths")[0]

    forward = read("forward", embedded)
    # Each sequence is turned round within its own length, so that padding stays at the end.
    reversed_back = read("backward", net.ReversePackedSegs([embedded, "seq_lengths"], "embedded_reversed"))
    backward = net.ReversePackedSegs([reversed_back, "seq_lengths"], "backward/in_order")
    both = concat(net, [forward, backward], "both", axis=2)
    net.Softmax(fc(net, both, "logits", 2 * hidden, tags, axis=2), "tags", axis=2)
    net.add_external_output("tags")
    return net


if __name__ == "__main__":
    c2.save(build().model(), sys.argv[1])
    print(f"wrote {sys.argv[1]}")
