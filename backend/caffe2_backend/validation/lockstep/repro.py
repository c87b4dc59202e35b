"""A minimal repro: one operator on both sides, with its inputs and outputs."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from caffe2_backend.admission import load_proto
from caffe2_backend.runtime import Int8Tensor
from caffe2_backend.validation.lockstep.steps import Point
from caffe2_backend.validation.runtimes import AnyModel, Value, find_runtime
from caffe2_bridge.files.saver import replace_file
from caffe2_bridge.model import Model
from caffe2_bridge.storage import AnyPath, published

SCRIPT: Final = """\
import numpy as np
from caffe2_backend.validation.lockstep.repro import rerun
expected, actual = rerun("reference"), rerun("candidate")
for (name, one), (_, other) in zip(expected.items(), actual.items()):
    print(name, "differs by", np.abs(np.asarray(one, float) - np.asarray(other, float)).max())
"""


def write_repro(folder: AnyPath, reference: tuple[str, Point], candidate: tuple[str, Point]) -> None:
    """Write a folder: ``reference/`` and ``candidate/`` (model, inputs, outputs, runtime) and ``repro.py``.

    Args:
        folder: to write; it is created if it does not exist.
        reference: the runtime's name, and the value that disagrees.
        candidate: the same of the other side.
    """
    with published(folder) as local:
        _write_repro(local, reference, candidate)


def _write_repro(folder: Path, reference: tuple[str, Point], candidate: tuple[str, Point]) -> None:
    for name, (runtime, point) in (("reference", reference), ("candidate", candidate)):
        assert point.cut is not None
        part = folder / name
        part.mkdir(parents=True, exist_ok=True)
        model = point.cut.model
        if isinstance(model, Model):
            replace_file(part / "predict_net.pb", model.predict_net.SerializeToString())
        else:
            replace_file(part / "model.onnx", model.SerializeToString())
        replace_file(part / "runtime", f"{runtime}\n{point.name}\n".encode())
        _write(part / "inputs.npz", point.cut.inputs)
        _write(part / "outputs.npz", {point.name: point.value})
    replace_file(folder / "repro.py", SCRIPT.encode())


def rerun(folder: str | Path) -> dict[str, Value]:
    """Run one side of a repro again, and return its outputs by name. Raises RunError, OSError."""
    part = Path(folder)
    runtime, output = (part / "runtime").read_text(encoding="utf-8").splitlines()
    net = part / "predict_net.pb"
    model: AnyModel = Model.of(net.read_bytes()) if net.is_file() else load_proto(part / "model.onnx")
    return find_runtime(runtime).load(model).run(_read(part / "inputs.npz"), [output])


def _write(path: Path, values: Mapping[str, Any]) -> None:
    arrays: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Int8Tensor):
            arrays[name] = value.data
            arrays[f"{name}//int8"] = np.array([value.scale, value.zero_point])
        else:
            arrays[name] = value.astype(str) if value.dtype == object else value
    content = io.BytesIO()
    np.savez(content, **{name.replace("/", "\\"): array for name, array in arrays.items()})
    replace_file(path, content.getvalue())


def _read(path: Path) -> dict[str, Value]:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name.replace("\\", "/"): file[name] for name in file.files}
    values: dict[str, Value] = {}
    for name, array in arrays.items():
        if name.endswith("//int8"):
            continue
        known = arrays.get(f"{name}//int8")
        plain = array.astype(object) if array.dtype.kind == "U" else array
        values[name] = plain if known is None else Int8Tensor(plain, float(known[0]), int(known[1]))
    return values
