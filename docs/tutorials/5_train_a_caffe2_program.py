# %% [markdown]
# # Train a Caffe2 program again
#
# A training program of Caffe2 is two NetDefs: an init net, which draws the parameters, and a training net with the
# gradient operators and the optimizer. Saved as files, it trains on, without Caffe2. A small one is built here; your
# own files go the same way from the second section on.

# %%
import numpy as np

import caffe2_bridge as c2
from caffe2_bridge.builder import ZEROS, Net, constant, fc
from caffe2_bridge.gradients import add_gradient_operators

net = Net("spirals", seed=3)
net.add_external_input("points", "label")
hidden = net.Tanh(fc(net, "points", "fc1", 2, 32))
hidden = net.Tanh(fc(net, hidden, "fc2", 32, 32))
net.SoftmaxWithLoss([fc(net, hidden, "fc3", 32, 2), "label"], ["odds", "loss"])

parameters = {op.output[0]: [*op.arg] for op in net.init_net.op}
made = add_gradient_operators(net.proto, ["loss"])
net.extend(made.net.op[len(net.proto.op) :])
rate = net.param("rate", [1], constant(-0.05))
for name, arguments in parameters.items():
    shape = next([*arg.ints] for arg in arguments if arg.name == "shape")
    squares = net.param(f"{name}_squares", shape, ZEROS)
    net.Adagrad([name, squares, made.gradients[name], rate], [name, squares], epsilon=1e-5)
net.add_external_output("loss")
c2.save(net.model(), "program")  # what a Caffe2 program would have saved

# %% [markdown]
# ## The data: two spirals

# %%
random = np.random.default_rng(0)
count = 2000
label = random.integers(2, size=count).astype(np.int32)
angle = random.uniform(0.5, 3 * np.pi, count)
points = np.stack([angle * np.cos(angle + np.pi * label), angle * np.sin(angle + np.pi * label)], axis=1) / 5
points = (points + random.normal(scale=0.02, size=points.shape)).astype(np.float32)
np.savez("data.npz", points=points, label=label)

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(4, 4))
axes.scatter(*points.T, c=label, s=4, cmap="coolwarm")
plt.show()

# %% [markdown]
# ## Train
#
# One command: batches of 100 rows, a checkpoint every 500 steps, and the loss curve as a page. `--resume trained`
# continues.

# %%
import subprocess

command = (
    "caffe2-bridge train program --inputs data.npz --batch-size 100 --steps 3000 --checkpoint-every 500 -o trained"
)
done = subprocess.run(command.split(), capture_output=True, text=True, check=True)
print(done.stdout)

# %% [markdown]
# The losses are in the checkpoint, too:

# %%
losses = np.load("trained/checkpoint.npz")["losses"]
figure, axes = plt.subplots(figsize=(7, 2.5))
axes.plot(losses, linewidth=0.6)
axes.set_xlabel("step")
axes.set_ylabel("loss")
plt.show()

# %% [markdown]
# ## Use what was trained
#
# The output folder has the trained nets again, for Caffe2 or for here. The forward half alone is a model to serve.

# %%
from caffe2_backend import Predictor

trained = c2.load("trained")
predictor = Predictor(trained.with_outputs(["odds"]))
odds = predictor.run({"points": points, "label": label})["odds"]
accuracy = (odds.argmax(axis=1) == label).mean()
print(f"accuracy {accuracy:.3f}")
assert accuracy > 0.9

# %%
side = np.linspace(-2, 2, 120, dtype=np.float32)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
map_of = predictor.run({"points": grid, "label": np.zeros(len(grid), np.int32)})["odds"][:, 1].reshape(120, 120)
figure, axes = plt.subplots(figsize=(4, 4))
axes.contourf(side, side, map_of, levels=10, cmap="coolwarm", alpha=0.6)
axes.scatter(*points.T, c=label, s=4, cmap="coolwarm")
plt.show()

# %% [markdown]
# The same program inside of Python: `Workspace().run_net(...)` step by step, or, where the program itself is at hand,
# `caffe2-bridge python program.py` ([Programs that use Caffe2's own Python](../caffe2_python.md)).
