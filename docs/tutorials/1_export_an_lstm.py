# %% [markdown]
# # Export an LSTM and serve it
#
# `models/char_rnn` is a character model that real Caffe2 trained: a `RecurrentNetwork` of 192 units. It becomes one
# ONNX model with one LSTM operator, which serves every batch size and every length, and writes text letter by letter.

# %%
import json
from pathlib import Path

import numpy as np
import onnxruntime as ort

import caffe2_bridge as c2
from caffe2_frontend import check, save_onnx, to_onnx

model = c2.load("models/char_rnn")
model

# %% [markdown]
# A notebook shows what a model is; the interactive picture under the table has the net beside its export: click an
# operator to see its weights and the nodes that it became. `check` reports everything that would not convert. Here it
# finds nothing, so the export is complete.

# %%
check(model)

# %%
exported = to_onnx(model)
save_onnx(exported, "char_rnn.onnx")
exported

# %% [markdown]
# An LSTM with its weights, and small nodes that compute lengths and padding as Caffe2 does:

# %%
nodes = list(exported.graph.node)
print(len(nodes), "nodes:", [node.op_type for node in nodes])

import matplotlib.pyplot as plt

weights = {tensor.name: np.prod(tensor.dims) for tensor in exported.graph.initializer}
sizes = [sum(weights.get(name, 0) for name in node.input) for node in nodes]
figure, axes = plt.subplots(figsize=(9, 3))
axes.bar(range(len(nodes)), sizes)
axes.set_xticks(range(len(nodes)), [node.op_type for node in nodes], rotation=70)
axes.set_ylabel("weights")
plt.show()

# %% [markdown]
# The file needs onnxruntime alone. Dims `T` (steps) and `N` (batch) are open.

# %%
session = ort.InferenceSession("char_rnn.onnx", providers=["CPUExecutionProvider"])
for value in session.get_inputs():
    print(value.name, value.type, value.shape)

# %% [markdown]
# ## Write
#
# One letter in, one letter out: the state that a call returns is the state that the next one takes.

# %%
letters = json.loads(Path("models/char_rnn/char_rnn.json").read_text())["vocab"]
random = np.random.default_rng(7)


def write(start: str, count: int) -> str:
    hidden = cell = np.zeros((1, 1, 192), np.float32)
    text = start
    index = letters.index(start)
    for _ in range(count):
        inputs = {
            "input_blob": np.eye(len(letters), dtype=np.float32)[[[index]]],
            "seq_lengths": np.array([1], np.int32),
            "hidden_init": hidden,
            "cell_init": cell,
        }
        outputs = dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs), strict=True))
        hidden, cell = outputs["LSTM/hidden_state_last"], outputs["LSTM/cell_state_last"]
        odds = outputs["softmax"].reshape(-1).astype(np.float64) ** 1.5
        index = int(random.choice(len(letters), p=odds / odds.sum()))
        text += letters[index]
    return text


print(write("T", 200))

# %% [markdown]
# What it expects after a text: the probabilities of the next letter.

# %%
text = "The time i"
state = np.zeros((1, 1, 192), np.float32)
feed = {
    "input_blob": np.eye(len(letters), dtype=np.float32)[[[letters.index(letter)] for letter in text]],
    "seq_lengths": np.array([len(text)], np.int32),
    "hidden_init": state,
    "cell_init": state,
}
odds = session.run(["softmax"], feed)[0][-1, 0]
best = odds.argsort()[::-1][:12]
figure, axes = plt.subplots(figsize=(7, 2.5))
axes.bar([repr(letters[index]) for index in best], odds[best])
axes.set_title(f"after {text!r}")
plt.show()

# %% [markdown]
# ## A batch of requests of different lengths
#
# Rows are padded, and `seq_lengths` says how long each is: one call serves them all, and each row gets what it would
# get alone.

# %%
texts = ["The time is", "A", "What will"]
longest = max(map(len, texts))
batch = np.zeros((longest, len(texts), len(letters)), np.float32)
for row, text in enumerate(texts):
    for step, letter in enumerate(text):
        batch[step, row, letters.index(letter)] = 1
state = np.zeros((1, len(texts), 192), np.float32)
lengths = np.array(list(map(len, texts)), np.int32)
feed = {"input_blob": batch, "seq_lengths": lengths, "hidden_init": state, "cell_init": state}
names = [o.name for o in session.get_outputs()]
together = dict(zip(names, session.run(None, feed), strict=True))

for row, text in enumerate(texts):
    alone = {
        "input_blob": batch[: len(text), row : row + 1],
        "seq_lengths": lengths[row : row + 1],
        "hidden_init": state[:, :1],
        "cell_init": state[:, :1],
    }
    expected = dict(zip(names, session.run(None, alone), strict=True))["LSTM/hidden_state_last"]
    difference = np.abs(together["LSTM/hidden_state_last"][:, row] - expected[:, 0]).max()
    assert difference < 1e-6
    print(repr(text), "differs by", difference)
