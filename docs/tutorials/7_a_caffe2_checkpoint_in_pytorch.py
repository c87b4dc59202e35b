# %% [markdown]
# # A Caffe2 checkpoint, fine-tuned in PyTorch
#
# What is left of many a Caffe2 project is a net and a `.pkl` file with its weights. Here is one: a character LSTM that
# real Caffe2 trained to write English prose. PyTorch shall teach it to write Python.

# %%
import pickle

import caffe2_bridge as c2

with open("prose.pkl", "wb") as file:  # as Detectron and VMZ wrote theirs
    pickle.dump({"blobs": dict(c2.load("models/char_rnn").params)}, file, protocol=2)

model = c2.load("models/char_rnn/predict_net.pb", init="prose.pkl")
print([op.type for op in model.predict_net.op])

# %% [markdown]
# ## As a module
#
# `to_torch` makes an `nn.Module` whose parameters have the names of the blobs. A loss wants the logits, not the softmax
# behind them: `outputs` chooses any blobs of the net.

# %%
import torch
from torch.nn import functional

from caffe2_torch import to_torch

torch.manual_seed(0)
torch.set_num_threads(1)  # the matrices are small
module = to_torch(model, outputs=["logits", "LSTM/hidden_state_last", "LSTM/cell_state_last"])
print("inputs:", *module.inputs)
for name, parameter in module.named_parameters():
    print(f"{name:16} {tuple(parameter.shape)}")

# %% [markdown]
# ## The data
#
# Source of Python's own library, as indices of the 94 characters of the model; every 100th window of text is kept back.

# %%
import inspect
import json
import json.decoder
import textwrap

with open("models/char_rnn/char_rnn.json") as file:
    vocabulary = json.load(file)["vocab"]

STEPS, BATCH = 24, 16
source = "".join(inspect.getsource(module) for module in (inspect, json.decoder, textwrap, pickle))
indices = torch.tensor([vocabulary.index(c) for c in source if c in vocabulary])
windows = indices[: len(indices) // (STEPS + 1) * (STEPS + 1)].reshape(-1, STEPS + 1)
held_back, windows = windows[::100], windows[torch.arange(len(windows)) % 100 > 0]
print(len(windows), "windows to train on,", len(held_back), "kept back")


def loss_of(rows):
    """Return the mean cross entropy of the next character, in nats."""
    one_hot = functional.one_hot(rows[:, :-1].T, len(vocabulary)).float()  # [T, N, 94]
    lengths = torch.full((len(rows),), STEPS, dtype=torch.int32)
    state = torch.zeros(1, len(rows), 192)
    logits, _, _ = module(one_hot, lengths, state, state)
    return functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].T.flatten())


def write(text, count=80):
    """Let the model go on with a text, always by the likeliest character."""
    hidden = cell = torch.zeros(1, 1, 192)
    fed = [vocabulary.index(c) for c in text]
    with torch.no_grad():
        while len(text) < count:
            one_hot = functional.one_hot(torch.tensor(fed), len(vocabulary)).float().unsqueeze(1)
            logits, hidden, cell = module(one_hot, torch.tensor([len(fed)], dtype=torch.int32), hidden, cell)
            fed = [int(logits.reshape(-1, len(vocabulary))[-1].argmax())]
            text += vocabulary[fed[0]]
    return text


with torch.no_grad():
    before = loss_of(held_back).item()
print(f"before: {before:.2f} nats a character")
print(write("def "))

# %% [markdown]
# ## Fine-tune
#
# From here on it is PyTorch as ever.

# %%
optimizer = torch.optim.Adam(module.parameters(), lr=3e-3)
losses = []
for _ in range(100):
    loss = loss_of(windows[torch.randint(len(windows), (BATCH,))])
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())

with torch.no_grad():
    after = loss_of(held_back).item()
assert after < before - 0.2
print(f"after: {after:.2f} nats a character")
print(write("def "))


# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7, 2.5))
axes.plot(losses, linewidth=0.8)
axes.plot([0, len(losses) - 1], [before, after], "o", color="C1")
axes.set_xlabel("step")
axes.set_ylabel("nats a character")
plt.show()

# %% [markdown]
# Nats a character by step: the line is the loss of each batch, the dots that of the text that was kept back.
#
# ## Back to Caffe2
#
# The weights have the blobs' names still. With them the same net is a Caffe2 model again, here run by onnxruntime:

# %%
import numpy as np

from caffe2_backend import Predictor

weights = {blob: module.get_parameter(name).detach().numpy() for blob, name in module.names.items()}
tuned = c2.Model.of(model.predict_net, c2.construct_init_net_from_params(weights))
c2.save(tuned, "python_rnn")

text = np.eye(94, dtype=np.float32)[[[vocabulary.index(c)] for c in "def "]]
state = np.zeros((1, 1, 192), np.float32)
inputs = {"input_blob": text, "seq_lengths": np.array([4], np.int32), "hidden_init": state, "cell_init": state}
found = Predictor(c2.load("python_rnn")).run(inputs)["softmax"]
with torch.no_grad():
    logits, _, _ = module(*(torch.from_numpy(inputs[name]) for name in module.inputs))
difference = np.abs(found - logits.softmax(-1).numpy()).max()
assert difference < 1e-5
print("largest difference", difference)

# %% [markdown]
# A checkpoint of optimizer states and other parts, renamed for a model of torchvision: [Weights](../weights.md). What a
# module is and takes, and its source without this project: [PyTorch](../torch.md).
