# %% [markdown]
# # Find the operator that differs
#
# Two models should compute the same, and do not: an old net and its copy in another system, say. Outputs only show
# *that* they differ. Lock step feeds every operator of both with the same inputs, so that the first one that differs is
# at fault, and nothing after it is blamed.

# %%
import numpy as np

import caffe2_bridge as c2
from caffe2_bridge.builder import LSTMCell, Net, fc

net = Net("tagger", seed=4)
net.add_external_input("features", "lengths")
output, *_ = LSTMCell(name="LSTM", input_size=12, hidden_size=24).apply_over_sequence(net, "features", "lengths")
net.Softmax(fc(net, output, "scores", 24, 5, axis=2), "tags", axis=2)
net.add_external_output("tags")
c2.save(net.model(), "good")
good = c2.load("good")
print([op.type for op in good.predict_net.op])

# %% [markdown]
# The damage: one element of one weight.

# %%
weights = {name: np.array(values) for name, values in good.params.items()}
weights["LSTM/gates_t_w"][7, 5] += 0.5
c2.save(c2.Model.of(good.predict_net, c2.construct_init_net_from_params(weights)), "damaged")

# %% [markdown]
# Here both sides run in `Workspace`; `runtimes=["caffe2", "onnxruntime-cpu"]` compares real Caffe2 with the export.

# %%
from caffe2_backend import validate

report = validate("good", runtimes=["workspace"], other="damaged", lockstep=True, repro="repro")
print(report.agrees)
for divergence in report.divergences[:1]:
    print(divergence)

# %% [markdown]
# The FC of the step net is the first to differ, at its first step, given the same hidden state. `repro` has that
# operator alone, with the inputs of both sides: they differ in the weight.

# %%
from pathlib import Path

(folder,) = Path("repro").iterdir()
print(sorted(path.name for path in folder.iterdir()))
with np.load(folder / "reference" / "inputs.npz") as ours, np.load(folder / "candidate" / "inputs.npz") as theirs:
    for name in ours.files:
        print(name, int((ours[name] != theirs[name]).sum()), "of", ours[name].size, "elements differ")
    weight = next(name for name in ours.files if ours[name].shape == weights["LSTM/gates_t_w"].shape)
    difference = theirs[weight] - ours[weight]

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(3, 4.5))
axes.imshow(difference, aspect="auto", cmap="RdBu", vmin=-0.5, vmax=0.5, interpolation="nearest")
axes.set_title(f"what differs in {weight}")
plt.show()

# %% [markdown]
# The same on the command line, with a page to look at:
# `caffe2-bridge validate good --other damaged --against workspace --lockstep --report report.html`.
