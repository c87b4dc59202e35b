# %% [markdown]
# # Move a GPU net to CPU and back
#
# A net that was trained on GPUs names them in every operator. It runs on a machine without one as it is; for other
# systems its device options can be taken out, and put back for other GPUs.

# %%
import numpy as np

import caffe2_bridge as c2
from caffe2_backend import Predictor
from caffe2_bridge.builder import Net, fc
from caffe2_frontend import check, to_onnx

net = Net("ranker", seed=5)
net.add_external_input("data")
with net.device_scope(c2.Device("cuda", 0).option()):
    hidden = net.Relu(fc(net, "data", "fc1", 16, 8))
    net.Softmax(fc(net, hidden, "fc2", 8, 4), "odds")
net.add_external_output("odds")
model = net.model()
print([(op.type, op.device_option.device_type) for op in model.predict_net.op])

# %% [markdown]
# ## Without a GPU
#
# `device="cpu"` ignores the options, and warns of it; an ONNX model has no devices, so the export is that of any net.

# %%
data = np.random.default_rng(0).normal(size=(3, 16)).astype(np.float32)
odds = Predictor(model, "cpu").run({"data": data})["odds"]
print(odds.round(3))
assert check(model).covered
print([node.op_type for node in to_onnx(model).graph.node])

# %% [markdown]
# For Caffe2 on a CPU, the options go:

# %%
from caffe2_bridge.proto.caffe2_pb2 import NetDef


def without_devices(source: NetDef) -> NetDef:
    plain = NetDef()
    plain.CopyFrom(source)
    plain.ClearField("device_option")
    for op in plain.op:
        op.ClearField("device_option")
        op.ClearField("engine")  # CUDNN
    return plain


predict, init = without_devices(model.predict_net), without_devices(model.init_net)
c2.save(c2.Model.of(predict, init), "on_cpu")
assert not any(op.HasField("device_option") for op in c2.load("on_cpu").predict_net.op)

# %% [markdown]
# ## Back, to another GPU
#
# `assign_device_option` gives every operator the device of its inputs, and makes the init net create the parameters
# there.

# %%
moved, moved_init = c2.assign_device_option(predict, init, {"data": "cuda:1"})
print([(op.type, op.device_option.device_id) for op in moved.op])
print([(op.output[0], op.device_option.device_id) for op in moved_init.op])

# %% [markdown]
# With inputs on the host, `follow_inputs` keeps on the host what must be there, and `insert_copies` adds the copies.

# %%
spread, where = c2.follow_inputs(predict, {"data": "cpu", "fc1_w": "cuda:1", "fc2_w": "cuda:1"}, ["fc1_b", "fc2_b"])
complete, devices = c2.insert_copies(spread, where)
print("odds is on", devices["odds"])

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(8, 1.8))
for index, op in enumerate(complete.op):
    on_gpu = bool(op.device_option.device_type)
    axes.text(index, int(on_gpu), op.type, ha="center", bbox={"fc": "#cfe0ff" if on_gpu else "#ffe3c2"})
axes.set(xlim=(-0.7, len(complete.op) - 0.3), ylim=(-0.5, 1.5), xticks=[])
axes.set_yticks([0, 1], ["host", "cuda:1"])
plt.show()

# %% [markdown]
# Which operators gain by a GPU is a question of what they and the copies cost; `place` solves it as a minimum cut
# ([The NetDef toolkit](../toolkit.md#move-a-net-to-gpu-1-except-its-detection-tail)).
#
# Here, without a GPU, the stand-in runs the plan for one on the CPU, and gives the same result:

# %%
from caffe2_backend import SessionOptions

options = SessionOptions(stand_in={"cuda:1": "cpu"})
again = Predictor(c2.Model.of(complete, init), options=options).run({"data": data})["odds"]
assert np.array_equal(odds, np.asarray(again))
print("equal")
