# %% [markdown]
# # A zoo of models in an afternoon
#
# A folder full of old nets: some complete, some without weights, some with operators of their own. `caffe2-bridge
# batch` checks, exports and validates each in a process of its own, and reports all of them. This zoo is made here.

# %%
from pathlib import Path

import caffe2_bridge as c2
from caffe2_bridge.builder import GRUCell, LSTMCell, Net, fc

zoo = Path("zoo")


def tagger(cell, name):
    net = Net(name, seed=1)
    net.add_external_input("features", "lengths")
    output, *_ = cell.apply_over_sequence(net, "features", "lengths")
    net.Softmax(fc(net, output, "logits", 8, 3, axis=2), "tags", axis=2)
    net.add_external_output("tags")
    return net


for name, cell in {
    "lstm": LSTMCell(name="rnn", input_size=5, hidden_size=8),
    "gru": GRUCell(name="rnn", input_size=5, hidden_size=8),
}.items():
    c2.save(tagger(cell, name).model(), zoo / "speech" / name)

# %%
perceptron = Net("perceptron", seed=2)
perceptron.add_external_input("data")
perceptron.Sigmoid(fc(perceptron, perceptron.Relu(fc(perceptron, "data", "fc1", 16, 8)), "fc2", 8, 1), "odds")
perceptron.add_external_output("odds")
c2.save(perceptron.model(), zoo / "ads")

secret = Net("secret")
secret.add_external_input("data")
secret.op("OurOwnNormalization", "data", "normal")
secret.add_external_output("normal")
c2.save(secret.model(), zoo / "secret")

# %% [markdown]
# One command. It ends with 1, because not every model agrees; hence `check=False`.

# %%
import json
import subprocess

command = "caffe2-bridge batch zoo -o results --jobs 1 --against onnxruntime-cpu --against onnx-reference"
done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
print(done.stdout)

# %% [markdown]
# `results/index.html` shows all of it, `results/onnx` has the models, `summary.json` the same as data.

# %%
summary = json.loads(Path("results/summary.json").read_text())
print(summary["counts"])

import matplotlib.pyplot as plt

rows = [[record["model"], record["verdict"], f"{record['seconds']:.1f} s"] for record in summary["models"]]
figure, axes = plt.subplots(figsize=(7, 1.6))
axes.axis("off")
colours = [["white", "#cfe8cf" if verdict == "agree" else "#f2cfcf", "white"] for _, verdict, _ in rows]
axes.table(rows, colLabels=["model", "verdict", "time"], cellColours=colours, loc="center")
plt.show()

# %%
for path in sorted(Path("results/onnx").rglob("*.onnx")):
    print(path, path.stat().st_size)

# %% [markdown]
# What is left is the model with an operator of its own: the diagnostic names it, and
# [Adding an operator](../adding-an-operator.md) says what it takes. The others are done.

# %%
(problem,) = [record for record in summary["models"] if record["verdict"] == "not covered"]
for finding in problem["findings"]:
    print(finding["place"], finding["code"], finding["reason"])
