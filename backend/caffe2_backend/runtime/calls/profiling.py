"""Measure how long each operator of a model takes on onnxruntime."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.calls.blob_workspace import Workspace
from caffe2_backend.runtime.calls.predictor import Predictor
from caffe2_backend.runtime.devices.device_names import with_net_device
from caffe2_backend.runtime.sessions.missing_inputs import require_inputs
from caffe2_backend.runtime.values import Int8Tensor, NoBlobError
from caffe2_bridge.control import inner_operators
from caffe2_bridge.devices import BlobProfile, OperatorProfile, Profile
from caffe2_bridge.diagnostics import BridgeError, RunError
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

_SHORTEST: Final = 1e-7  # seconds


def profile_model(model: Model, inputs: Mapping[str, Any], *, device: str | None = None, runs: int = 10) -> Profile:
    """Run the operators of a model one at a time, each several times in a row, and measure them.

    An operator computes the outputs that the net reads, and parameters are constants, as in the net's export: a
    recurrent net may be an LSTM. One with bodies is measured as a whole. A recurrent net takes in the FC that computes
    its gates: they are measured together, and the time of the FC alone is subtracted. Without other fusions of the net
    as a whole, times add up to more than that of the net.

    Args:
        model: the model.
        inputs: its inputs, by blob.
        device: where to run, as in :class:`Workspace`; by default ``cpu``.
        runs: how often each operator is measured, at least once; a run before, which converts it, does not count.

    Returns:
        The profile. Raises RunError if ``runs`` is not positive, an input is missing, a name is not one of an input,
        or an operator fails, and ConversionError if one cannot be converted.
    """
    if runs < 1:
        raise RunError(f"runs must be at least 1, not {runs}")
    require_inputs(inputs, model.inputs, model.init.replaceable)
    place = device or "cpu"
    workspace = Workspace.isolated(place)
    workspace.run_net_once(model.init)
    for name, value in inputs.items():
        workspace.feed(name, value)
    net = model.predict_net
    constants = model.init.with_inputs({name for op in net.op for name in op.output})
    operators: list[OperatorProfile] = []
    for index, outputs in enumerate(outputs_read(net, model.outputs)):
        op, before = with_net_device(net.op[index], net), _taken_in(net, index, model.outputs)
        taken = NetDef(op=[*(net.op[i] for i in before), op], external_output=outputs)
        apart = sum(min(operators[i].seconds) for i in before)
        operators.append(_measure(workspace, Model(taken, constants), index, runs, apart))
    return Profile(net.name, place, tuple(operators))


def outputs_read(net: NetDef, outputs: Collection[str]) -> list[tuple[str, ...]]:
    """Return, for each operator, those of its outputs that are read later or that the net outputs; all if none are."""
    found: list[tuple[str, ...]] = []
    live = set(outputs)
    for op in reversed(net.op):
        found.append(tuple(name for name in op.output if name in live) or tuple(op.output))
        live.difference_update(op.output)
        live.update(name for each in _with_bodies(op) for name in each.inputs)
    return found[::-1]


def _taken_in(net: NetDef, index: int, outputs: Collection[str]) -> list[int]:
    """Return the operators that the export of a recurrent net takes in: FCs that compute what it alone reads."""
    op = net.op[index]
    if op.type != "RecurrentNetwork":
        return []
    readers = Counter(name for each in net.op for one in _with_bodies(each) for name in one.inputs)
    return [
        i
        for i, before in enumerate(net.op[:index])
        if before.type == "FC" and before.output[0] in op.input and readers[before.output[0]] == 1
        if before.output[0] not in outputs
    ]


def _with_bodies(op: OperatorDef) -> Iterable[OpView]:
    return OpView(op, 0), *inner_operators(OpView(op, 0))


def _measure(workspace: Workspace, model: Model, index: int, runs: int, apart: float) -> OperatorProfile:
    """Run the last operator of a net on the same inputs, then once in the workspace, where later ones read it.

    Args:
        workspace: where the operators before it ran.
        model: the operator, and those that it takes in; constant parameters.
        index: the index of the operator in the net.
        runs: how often it is measured.
        apart: the time that those which it takes in take.
    """
    op = model.predict_net.op[-1]
    outputs = model.predict_net.external_output
    read = tuple(_describe(workspace, op.input))
    net = NetDef(op=[op], external_output=outputs)
    together = _predictions(workspace, model, runs)
    seconds = [max(each - apart, _SHORTEST) for each in together] or _steps(workspace, net, runs)
    workspace.run_net_once(net)
    known = {blob.name: blob for blob in _describe(workspace, outputs)}
    written = tuple(known.get(name, BlobProfile(name)) for name in op.output)
    return OperatorProfile(index, op.type, op.name, read, written, tuple(seconds))


def _predictions(workspace: Workspace, model: Model, runs: int) -> Sequence[float]:
    """Measure a net whose parameters are constants; empty if it reads or writes what is not a tensor."""
    inputs = {name: _value(workspace, name) for name in model.inputs}
    if any(value is None for value in inputs.values()):
        return ()
    try:
        predictor = Predictor(model.without_unneeded(), device=workspace.device)
        predictor.run(inputs)
    except BridgeError:  # the workspace runs it, or reports why not
        return ()
    return [_timed(lambda: predictor.run(inputs)) for _ in range(runs)]


def _steps(workspace: Workspace, net: NetDef, runs: int) -> Sequence[float]:
    """Measure a net in the workspace: the blobs that it overwrites are fed again before each run."""
    op = net.op[0]
    overwritten = {name: value for name in {*op.input} & {*op.output} if (value := _value(workspace, name)) is not None}
    seconds = []
    for _ in range(runs + 1):
        for name, value in overwritten.items():
            workspace.feed(name, value)
        seconds.append(_timed(lambda: workspace.run_net_once(net)))
    for name, value in overwritten.items():
        workspace.feed(name, value)
    return seconds[1:]


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _describe(workspace: Workspace, names: Iterable[str]) -> Iterable[BlobProfile]:
    for name in names:
        value = _value(workspace, name)
        if value is None:
            yield BlobProfile(name)
        else:
            array = value.data if isinstance(value, Int8Tensor) else np.asarray(value)
            size = sum(map(len, array.reshape(-1))) if array.dtype == object else array.nbytes
            yield BlobProfile(name, array.dtype.name, array.shape, size)


def _value(workspace: Workspace, name: str) -> Any:
    """Return the value of a blob; None if it is an object, or does not exist."""
    try:
        return workspace.fetch(name)
    except (NoBlobError, RunError):
        return None
