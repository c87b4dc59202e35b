"""A character model: one LSTM over one-hot characters, its state handed from call to call.

The net of models/char_rnn, with weights that are not trained yet: python models/char_rnn.py FOLDER
"""

from __future__ import annotations

import sys

import caffe2_bridge as c2
from caffe2_bridge.builder import LSTMCell, Net, fc


def build(vocabulary: int = 94, hidden: int = 192, *, seed: int = 0, forward_only: bool = True) -> Net:
    """``input_blob`` [T, N, vocabulary] to ``softmax`` of the same shape, and the state after the last step."""
    net = Net("char_rnn", seed=seed)
    net.add_external_input("input_blob", "seq_lengths", "hidden_init", "cell_init")
    cell = LSTMCell(name="LSTM", input_size=vocabulary, hidden_size=hidden, forget_bias=1.0, forward_only=forward_only)
    output, (_, hidden_last, _, cell_last) = cell.apply_over_sequence(
        net, "input_blob", "seq_lengths", ("hidden_init", "cell_init")
    )
    logits = fc(net, output, "logits", hidden, vocabulary, axis=2)
    softmax = net.Softmax(logits, "softmax", axis=2)
    net.Reshape(softmax, ["softmax_reshaped", "_"], shape=[-1, vocabulary])
    net.add_external_output(softmax, hidden_last, cell_last)
    return net


if __name__ == "__main__":
    c2.save(build().model(), sys.argv[1])
    print(f"wrote {sys.argv[1]}")
