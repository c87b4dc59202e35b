"""A minimal repro: one operator on both sides, with its inputs and outputs, and a script that runs it again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from caffe2_backend.npz import write_npz
from caffe2_backend.runtime import Int8Tensor
from caffe2_bridge.files.saver import replace_file
from caffe2_bridge.model import Model
from caffe2_bridge.storage import AnyPath, published
from caffe2_validation.lockstep.steps import Point

_SCRIPT: Final = '''\
"""Run one operator on both sides again, and print how far the results are apart."""

import numpy as np
from caffe2_backend import Int8Tensor, Predictor

# By folder: the runtime of the side, the model, the output, and scales and zero points of Int8 tensors. The results of
# other runtimes than onnxruntime and this project's workspace are those that were recorded.
SIDES = {sides}


def values(side, file):
    arrays, scales = np.load(f"{{side}}/{{file}}"), SIDES[side][3]
    return {{name: Int8Tensor(arrays[name], *scales[name]) if name in scales else arrays[name] for name in arrays}}


def result(side):
    runtime, model, output, _ = SIDES[side]
    if runtime not in {again}:
        return values(side, "outputs.npz")[output]
    return Predictor(f"{{side}}/{{model}}", outputs=[output]).run(values(side, "inputs.npz"))[output]


results = [found.data if isinstance(found, Int8Tensor) else found for found in map(result, SIDES)]
one, other = map(np.asarray, results)
if one.shape == other.shape and np.can_cast(one.dtype, float) and np.can_cast(other.dtype, float):
    print(SIDES["reference"][2], "differs by", np.abs(one.astype(float) - other.astype(float)).max(initial=0))
else:
    print(SIDES["reference"][2], "is", one.dtype, one.shape, one, "and", other.dtype, other.shape, other)
'''
_RUN_AGAIN: Final = ("workspace", "onnxruntime-cpu", "onnxruntime-cuda")
_MODELS: Final = {True: "predict_net.pb", False: "model.onnx"}


def write_repro(folder: AnyPath, reference: tuple[str, Point], candidate: tuple[str, Point]) -> None:
    """Write a folder: ``reference/`` and ``candidate/`` (model, inputs, outputs) and ``repro.py``.

    The names of the arrays are those of the blobs.

    Args:
        folder: to write; it is created if it does not exist.
        reference: the runtime's name, and the value that disagrees.
        candidate: the same of the other side.
    """
    with published(folder) as local:
        _write_repro(local, {"reference": reference, "candidate": candidate})


def _write_repro(folder: Path, sides: Mapping[str, tuple[str, Point]]) -> None:
    described = {}
    for side, (runtime, point) in sides.items():
        assert point.cut is not None
        part = folder / side
        part.mkdir(parents=True, exist_ok=True)
        model = point.cut.model
        file = _MODELS[isinstance(model, Model)]
        net = model.predict_net if isinstance(model, Model) else model
        replace_file(part / file, net.SerializeToString())
        _write(part / "inputs.npz", point.cut.inputs)
        _write(part / "outputs.npz", {point.name: point.value})
        described[side] = (runtime, file, point.name, _scales({**point.cut.inputs, point.name: point.value}))
    replace_file(folder / "repro.py", _SCRIPT.format(sides=described, again=_RUN_AGAIN).encode())


def _write(path: Path, values: Mapping[str, Any]) -> None:
    write_npz(path, {n: value.data if isinstance(value, Int8Tensor) else value for n, value in values.items()})


def _scales(values: Mapping[str, Any]) -> dict[str, tuple[float, int]]:
    int8 = {name: value for name, value in values.items() if isinstance(value, Int8Tensor)}
    return {name: (float(value.scale), int(value.zero_point)) for name, value in int8.items()}
