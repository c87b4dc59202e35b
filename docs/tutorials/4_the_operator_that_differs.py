# %% [markdown]
# # Find the operator that differs
#
# Two models should compute the same, and do not: an old net and its copy in another system, say. Outputs only show
# *that* they differ. Lock step feeds every operator of both with the same inputs, so that the first one that differs is
# at fault, and nothing after it is blamed.

# %%
import caffe2_bridge as c2
from caffe2_bridge.proto.caffe2_pb2 import NetDef

good = c2.load("models/char_rnn")

# %% [markdown]
# The damage: one element of one weight.

# %%
init = NetDef()
init.CopyFrom(good.init_net)
fill = next(op for op in init.op if op.output[0] == "LSTM/gates_t_w")
values = next(arg for arg in fill.arg if arg.name == "values")
values.floats[7 * 192 + 5] += 0.5
c2.save(c2.Model.of(good.predict_net, init), "damaged")

# %% [markdown]
# Here both sides run in `Workspace`; `runtimes=["caffe2", "onnxruntime-cpu"]` compares real Caffe2 with the export.

# %%
from caffe2_backend import validate

report = validate("models/char_rnn", runtimes=["workspace"], other="damaged", lockstep=True, repro="repro")
print(report.agrees)
for divergence in report.divergences[:1]:
    print(divergence)

# %% [markdown]
# The FC of the step net is the first to differ, at its first step, given the same hidden state. `repro` has that
# operator alone, with the inputs of both sides: they differ in the weight.

# %%
from pathlib import Path

import numpy as np

(folder,) = Path("repro").iterdir()
print(sorted(path.name for path in folder.iterdir()))
with np.load(folder / "reference" / "inputs.npz") as ours, np.load(folder / "candidate" / "inputs.npz") as theirs:
    for name in ours.files:
        print(name, int((ours[name] != theirs[name]).sum()), "of", ours[name].size, "elements differ")

# %% [markdown]
# The same on the command line, with a page to look at:
# `caffe2-bridge validate models/char_rnn --other damaged --against workspace --lockstep --report report.html`.
