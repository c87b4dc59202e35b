"""Models of a trial fleet: recorded nets of the tests, some of them broken."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Final

from conformance.corpus import Case, find_cases, read_case
from support.paths import GOLDEN

import caffe2_fleet as fleet
from caffe2_bridge.proto.caffe2_pb2 import NetDef

BROKEN: Final = 0.05  # of all models


def make_models(folder: Path, count: int, seed: int) -> Path:
    """Write ``count`` models and a manifest that describes their inputs, and return the path of the manifest.

    Every 20th is broken: cut off, no net at all, without its weights, or with an operator that does not exist.
    """
    draw = random.Random(seed)  # noqa: S311 - which nets, and nothing secret
    refs = find_cases(GOLDEN)
    draw.shuffle(refs)
    broken = set(draw.sample(range(count), int(count * BROKEN)))
    tasks = []
    for index in range(count):
        case = read_case(refs[index % len(refs)])
        name = f"{case.ref.group.replace('/', '-')}-{index:04d}"
        _write(case, folder / name, draw.randrange(4) if index in broken else None)
        inputs = {} if case.init_net is not None else {n: (x.dtype.name, list(x.shape)) for n, x in case.inputs.items()}
        plain = {n: spec for n, spec in inputs.items() if spec[0] != "object" and n not in case.quantized}
        tasks.append(fleet.ModelTask(name, str(folder / name), inputs=plain, owner=f"team {index % 5}"))
    manifest = folder / "models.toml"
    fleet.write_manifest(tasks, manifest)
    return manifest


def _write(case: Case, folder: Path, fault: int | None) -> None:
    net = NetDef()
    net.CopyFrom(case.net)
    if fault == 0:
        net.op.add(type="NoSuchOperator", input=list(net.op[-1].output)[:1], output=["nothing"])
    data = net.SerializeToString()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "predict_net.pb").write_bytes({1: data[: len(data) // 2], 2: b"\xff\xffno net"}.get(fault or 0, data))
    if case.init_net is not None and fault != 3:
        (folder / "init_net.pb").write_bytes(case.init_net.SerializeToString())
