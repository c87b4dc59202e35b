"""A language model: two GRU layers, the second with a residual connection.

Writes a model folder, with weights that are not trained: python models/gru_language_model.py FOLDER
"""

from __future__ import annotations

import sys

import caffe2_bridge as c2
from caffe2_bridge.builder import GRUCell, MultiRNNCell, Net, fc


def build(words: int = 120, size: int = 24, *, seed: int = 0) -> Net:
    """``words`` int32 [T, N] and ``seq_lengths`` int32 [N] to ``next_word`` [T, N, words], probabilities."""
    net = Net("gru_language_model", seed=seed)
    net.add_external_input("words", "seq_lengths")
    embedded = net.Gather([net.param("embedding", (words, size)), "words"], "embedded")
    cell = MultiRNNCell(
        name="layers",
        cells=tuple(
            GRUCell(name=name, input_size=size, hidden_size=size, forward_only=True) for name in ("low", "high")
        ),
        residual_output_layers=(1,),
        forward_only=True,
    )
    output, _ = cell.apply_over_sequence(net, embedded, "seq_lengths")
    net.Softmax(fc(net, output, "logits", size, words, axis=2), "next_word", axis=2)
    net.add_external_output("next_word")
    return net


if __name__ == "__main__":
    c2.save(build().model(), sys.argv[1])
    print(f"wrote {sys.argv[1]}")
