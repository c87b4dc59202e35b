"""Two embedding tables trained by each optimizer of caffe2.python.optimizer: losses, and the bytes that steps copied.

Counted, on this project's runtime, is what a step writes of a table or a state of it to other memory than before, and
what nodes of a session write that is as large as a table, but for the scatters into it.
"""

import importlib
import json
import os
import sys
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from caffe2_tests.programs.harness import Figures, caffe2

ROWS, WIDTH, SAMPLES, STEPS, WARM = 1500, 8, 16, 6, 3  # no other tensor has ROWS rows
OPTIMIZERS: Dict[str, Tuple[str, Dict[str, Any]]] = {
    "sgd": ("sgd", {}),
    "sgd, steps": ("sgd", {"policy": "step", "stepsize": 3, "gamma": 0.5}),
    "sgd, clipped": ("sgd", {"max_gradient_norm": 1.0}),
    "momentum": ("sgd", {"momentum": 0.9}),
    "nesterov, summed": ("sgd", {"momentum": 0.9, "nesterov": 1, "sparse_dedup_aggregator": "sum"}),
    "multi precision": ("multi_precision_sgd", {"momentum": 0.9}),
    "adagrad": ("adagrad", {}),
    "adagrad, decay": ("adagrad", {"weight_decay": 1e-4}),
    "adagrad, rows": ("adagrad", {"rowWise": True}),
    "wngrad": ("wngrad", {}),
    "storm": ("storm", {}),
    "adadelta": ("adadelta", {}),
    "ftrl": ("ftrl", {"engine": None, "alpha": 1.0, "beta": 0.1, "lambda1": 0.0, "lambda2": 0.0}),
    "adam": ("adam", {}),
    "adam, rows": ("adam", {"rowWise": True}),
    "adam, smart": ("adam", {"use_smart_decay": True}),
    "radam": ("adam", {"enableRAdam": True}),
    "decay adagrad": ("decay_adagrad", {}),
}


class Copies:
    """Counts what steps copy, from its making to :meth:`end`."""

    def __init__(self, folder: str) -> None:
        session: Any = importlib.import_module("caffe2_backend.runtime.sessions.session")
        self._store = importlib.import_module("caffe2_compat.workspace.named_workspaces").current()._store
        self._sessions: List[Any] = []
        self._before: Dict[str, Tuple[int, int]] = {}
        self._bytes = 0
        options, load = session.library_options, session.Session._load

        def profiled(given: Any) -> Any:
            made = options(given)
            made.enable_profiling, made.profile_file_prefix = True, folder + "/nodes"
            return made

        def loaded(one: Any, model: Any, given: Any) -> Any:
            self._sessions.append(load(one, model, given))
            return self._sessions[-1]

        def restore() -> None:
            session.library_options, session.Session._load = options, load

        session.library_options, session.Session._load, self._restore = profiled, loaded, restore

    def note(self, step: int) -> None:
        """Note where tables and states are after a step; from ``WARM`` steps on, what moved was copied."""
        arrays = {name: v for name, v in self._store.blobs.items() if isinstance(v, np.ndarray)}
        now = {name: (v.ctypes.data, v.nbytes) for name, v in arrays.items() if v.shape[:1] == (ROWS,)}
        assert {"first", "second"} <= set(now)
        if step >= WARM:
            self._bytes += sum(size for name, (at, size) in now.items() if self._before[name][0] != at)
        self._before = now

    def end(self) -> int:
        """Return how many bytes were copied."""
        self._restore()
        for one in self._sessions:
            name = one.end_profiling()
            with open(name, encoding="utf-8") as file:
                events = [event for event in json.load(file) if event["name"].endswith("_kernel_time")]
            os.remove(name)
            for event in [event["args"] for event in events]:
                shapes = [dims for each in event["output_type_shape"] for dims in each.values()]
                if any(dims[:1] == [ROWS] for dims in shapes) and not event["op_name"].startswith("Scatter"):
                    self._bytes += int(event["output_size"])
        return self._bytes


def build(kind: str, options: Dict[str, Any], *, cut: bool) -> Any:
    """Return a click model of two tables; ``cut``: a host operator stands in its middle."""
    brew, core = caffe2("brew"), caffe2("core")
    model = caffe2("model_helper").ModelHelper(kind)
    model.net.AddExternalInputs("ids", "lengths", "label")
    sums = []
    for name in ("first", "second"):
        table = model.param_init_net.ConstantFill([], name, shape=[ROWS, WIDTH], value=0.01)
        model.AddParameter(table)
        sums.append(model.net.SparseLengthsSum([table, "ids", "lengths"], name + "_sum"))
    both, _ = model.net.Concat(sums, ["both", "dims"], axis=1)
    if cut:
        model.net.Print(both, [], limit=1)
    flat, _ = model.net.Reshape(brew.fc(model, both, "z", 2 * WIDTH, 1), ["flat", "old"], shape=[-1])
    loss = model.net.AveragedLoss(model.net.SigmoidCrossEntropyWithLogits([flat, "label"], "each"), "loss")
    model.AddGradientOperators([loss])
    if options.get("rowWise"):  # dense parameters refuse it
        for param in ("z_w", "z_b"):
            del model.param_to_grad[core.BlobReference(param)]
    rate = {} if kind == "ftrl" else {"base_learning_rate": 0.1}
    getattr(caffe2("optimizer"), "build_" + kind)(model, **rate, **options)
    return model


def train(model: Any, copies: Optional[Copies]) -> List[float]:
    """Return the losses of a few steps. In every other one ids repeat."""
    workspace, random = caffe2("workspace"), np.random.RandomState(0)
    losses = []
    for step in range(WARM + STEPS):
        lengths = random.randint(0, 6, SAMPLES).astype(np.int32)
        workspace.FeedBlob("lengths", lengths)
        workspace.FeedBlob("ids", random.randint(0, ROWS if step % 2 else 9, lengths.sum()))
        workspace.FeedBlob("label", random.randint(0, 2, SAMPLES).astype(np.float32))
        if step == 0:
            workspace.RunNetOnce(model.param_init_net)
            workspace.FeedBlob("z_w", np.linspace(-1, 1, 2 * WIDTH, dtype=np.float32).reshape(1, -1))
            workspace.CreateNet(model.net)
        workspace.RunNet(model.net)
        losses.append(float(workspace.FetchBlob("loss")))
        if copies is not None:
            copies.note(step)
    return losses


def optimizers(folder: str) -> Figures:
    """Return the losses of each optimizer, without and with a cut; ``copied`` is empty in real Caffe2."""
    here = "caffe2_backend" in sys.modules
    found: Figures = {"copied": {}}
    for name, (kind, options) in OPTIMIZERS.items():
        for cut in (False, True):
            caffe2("workspace").ResetWorkspace()
            copies = Copies(folder) if here else None
            case = name + ", cut" * cut
            found[case] = {"losses": train(build(kind, options, cut=cut), copies)}
            if copies is not None:
                found["copied"][case] = copies.end()
    return found
