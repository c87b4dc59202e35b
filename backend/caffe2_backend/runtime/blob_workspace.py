"""Workspaces: named blobs, and nets that run on them, as in Caffe2."""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final, Literal, overload

import numpy as np
from google.protobuf.message import Message

from caffe2_backend.runtime.device_names import CPU, device_name, names_gpu
from caffe2_backend.runtime.host_fills import run_fill, split_fills
from caffe2_backend.runtime.results import Later, Results, value_of
from caffe2_backend.runtime.session_options import DEFAULTS, Choices
from caffe2_backend.runtime.sessions import put_on, real_device
from caffe2_backend.runtime.staged import Runnable, make_program
from caffe2_backend.runtime.stepper import Trace, trace_net
from caffe2_backend.runtime.values import (
    Array,
    DeviceTensor,
    Int8Tensor,
    NoBlobError,
    Opaque,
    Value,
    as_bytes,
    as_value,
)
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.views import OpView, as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

# Nets and operators that run once are kept, converted, in case that they run again.
_KEPT_ONCE: Final = 256
Net = Message | bytes | InitNet | Any


@dataclass
class _Prepared:
    """A net ready to run: fills of the host, then the program of the rest."""

    net: NetDef
    fills: tuple[OpView, ...]
    program: Runnable | None
    is_init: bool
    runs: int = 0
    counting: threading.Lock = field(default_factory=threading.Lock)

    def turn(self) -> int:
        with self.counting:
            self.runs += 1
            return self.runs - 1


class Workspace:
    """Named blobs, and nets that read and write them.

    Blobs persist: what a net writes can be fetched until something else is written there. Different threads may feed,
    fetch and run at the same time; a run reads its inputs at one moment and writes its results at one moment.

    Args:
        device: None runs every operator where its device option says; ``cpu`` ignores device options (a warning says
            so, once); ``cuda:N`` runs nets without device options there, and others with this GPU for those they name.
        choices: how sessions are made.
        seed: of the random fills that name none; None draws one.
    """

    def __init__(self, device: str | None = None, *, choices: Choices = DEFAULTS, seed: int | None = None) -> None:
        self.device = None if device is None else device_name(device)
        if self.device is not None:
            real_device(self.device, choices)
        self._choices = choices
        self._random = np.random.default_rng(seed)
        self._blobs: dict[str, Value | Later] = {}
        self._filled: dict[str, Value] = {}
        self._nets: dict[str, _Prepared] = {}
        self._once: OrderedDict[bytes, _Prepared] = OrderedDict()
        self._lock = threading.RLock()
        self._warned = False

    # Blobs

    def feed(self, name: str, value: Any, device: str | None = None) -> None:
        """Set a blob.

        Args:
            name: the blob.
            value: an array, a number or list of them, an Int8Tensor, a text, or a tensor of a library that speaks
                DLPack, such as torch. What lies on the host is copied; what lies on a GPU stays there and is shared.
            device: where to put a value of the host; default the host.

        Raises RunError where the value is nothing of the kind, or there is no such device.
        """
        found = as_value(name, value, copy=True)
        if device is not None and device_name(device) != CPU:
            if not isinstance(found, np.ndarray):
                raise RunError(f"blob {name!r}: only a tensor of numbers on the host can be put on {device}")
            found = put_on(found, device_name(device), real_device(device_name(device), self._choices))
        with self._lock:
            self._blobs[name] = found

    @overload
    def fetch(self, name: str, *, on_device: Literal[True]) -> Array | Int8Tensor | DeviceTensor | bytes: ...
    @overload
    def fetch(self, name: str, *, on_device: Literal[False] = False) -> Array | Int8Tensor | bytes: ...
    def fetch(self, name: str, *, on_device: bool = False) -> Array | Int8Tensor | DeviceTensor | bytes:
        """A copy of a blob: an array (of bytes objects for strings), an Int8Tensor, or the bytes of a text.

        With ``on_device`` a tensor that lies on a device is given as it lies there. Raises NoBlobError where there is
        no such blob, RunError where it is no tensor.
        """
        with self._lock:
            value = self._value(name)
        if value is None:
            raise NoBlobError(f"there is no blob {name!r} in the workspace")
        if isinstance(value, Opaque):
            raise RunError(f"blob {name!r} is no tensor: a {value.maker.type} made it")
        if isinstance(value, bytes):
            return value
        if isinstance(value, DeviceTensor):
            return value if on_device else value.numpy()
        if isinstance(value, Int8Tensor):
            return Int8Tensor(value.data.copy(), value.scale, value.zero_point)
        return as_bytes(value) if value.dtype == object else value.copy()

    def has_blob(self, name: str) -> bool:
        """Whether there is such a blob."""
        return name in self._blobs

    def blobs(self) -> list[str]:
        """The names of all blobs, sorted."""
        with self._lock:
            return sorted(self._blobs)

    def remove_blob(self, name: str) -> bool:
        """Forget a blob; whether there was one."""
        with self._lock:
            self._filled.pop(name, None)
            return self._blobs.pop(name, None) is not None

    def reset(self) -> None:
        """Forget all blobs and nets."""
        with self._lock:
            self._blobs.clear()
            self._filled.clear()
            self._nets.clear()
            self._once.clear()

    # Nets

    def run_net_once(self, net: Net) -> None:
        """Run a net: a NetDef of this project or of Caffe2, its bytes, what has a ``Proto()``, or a model's ``init``.

        Raises ConversionError where it cannot be converted, RunError where a blob is missing or the run fails.
        """
        proto = as_net(net)
        prepared = self._prepared_once(proto)
        prepared.runs = 0
        self._run(prepared)

    def run_operator_once(self, operator: Message | bytes) -> None:
        """Run one operator; errors are those of :meth:`run_net_once`."""
        self._run(self._prepared_once(NetDef(op=[as_operator(operator)])))

    def create_net(self, net: Net, *, overwrite: bool = False) -> str:
        """Prepare a net to be run by name; the name. It is converted when it first runs.

        Raises RunError where there is one of this name already, unless ``overwrite``.
        """
        proto = as_net(net)
        prepared = self._prepare(proto)
        with self._lock:
            if proto.name in self._nets and not overwrite:
                raise RunError(f"there is a net {proto.name!r} already")
            self._nets[proto.name] = prepared
        return proto.name

    @overload
    def run_net(self, name: str, times: int = 1) -> None: ...
    @overload
    def run_net(
        self, name: str, times: int = 1, *, every_blob: Literal[True], bodies: bool = False, capture: bool = True
    ) -> Trace: ...
    def run_net(
        self, name: str, times: int = 1, *, every_blob: bool = False, bodies: bool = False, capture: bool = True
    ) -> Trace | None:
        """Run a net that was created.

        Args:
            name: the net's name.
            times: how often.
            every_blob: go operator by operator, and give what each wrote: slow, to find out where a net goes wrong.
            bodies: with ``every_blob``, go through the bodies of If, While, Do and RecurrentNetwork too.
            capture: with ``every_blob``, whether values are kept; without, only the workspace is written.

        Raises ConversionError, RunError as :meth:`run_net_once`; also RunError where there is no such net.
        """
        with self._lock:
            prepared = self._nets.get(name)
        if prepared is None:
            raise RunError(f"there is no net {name!r}: create it first")
        if every_blob:
            trace = Trace()
            for _ in range(times):
                trace = self._run_steps(prepared.net, bodies=bodies, capture=capture)
            return trace
        for _ in range(times):
            self._run(prepared)
        return None

    def nets(self) -> list[str]:
        """The names of the nets that were created."""
        with self._lock:
            return list(self._nets)

    def conversions(self) -> int:
        """How many conversions of nets there were: a run over inputs of a kind seen before adds none."""
        with self._lock:
            kept = [*self._nets.values(), *self._once.values()]
        return sum(prepared.program.conversions for prepared in kept if prepared.program is not None)

    def _prepare(self, net: NetDef) -> _Prepared:
        if self.device == CPU and names_gpu(net) and not self._warned:
            self._warned = True
            text = f"net {net.name!r} asks for GPUs: its device options are ignored, everything runs on the CPU"
            warnings.warn(text, RuntimeWarning, stacklevel=4)
        copy = NetDef()
        copy.CopyFrom(net)
        is_init = _is_init(copy)
        fills, rest = split_fills(copy) if is_init else ((), copy)
        program = make_program(rest, self.device, self._choices) if rest.op else None
        return _Prepared(copy, fills, program, is_init)

    def _prepared_once(self, net: NetDef) -> _Prepared:
        """A net that runs once, kept in case it runs again; init nets are not: they are large, and soon made."""
        if _is_init(net):
            return self._prepare(net)
        key = net.SerializeToString(deterministic=True)
        with self._lock:
            prepared = self._once.get(key)
            if prepared is None:
                prepared = self._once[key] = self._prepare(net)
                while len(self._once) > _KEPT_ONCE:
                    self._once.popitem(last=False)
            self._once.move_to_end(key)
        return prepared

    def _run(self, prepared: _Prepared) -> None:
        if prepared.fills:
            self._fill(prepared)
        program = prepared.program
        if program is None:
            return
        with self._lock:
            given = program.collect(self._blobs)
        results = program.run_given(given, self._filled)
        with self._lock:
            self._commit(results)
            if prepared.is_init:
                self._filled.update(results.values)

    def _fill(self, prepared: _Prepared) -> None:
        turn = prepared.turn()
        with self._lock:
            draw = int(self._random.integers(2**62))
        made: dict[str, Any] = {}
        for op in prepared.fills:
            made[op.outputs[0]] = run_fill(op, made, prepared.net, draw, turn)
        with self._lock:
            self._blobs.update(made)
            self._filled.update(made)

    def _commit(self, results: Results) -> None:
        if results.later:
            self._blobs.update(results.later)
        if results.objects:
            self._blobs.update(results.objects)
        self._blobs.update(results.values)

    def _value(self, name: str) -> Value | None:
        return value_of(name, self._blobs)

    def _run_steps(self, net: NetDef, *, bodies: bool, capture: bool) -> Trace:
        def run(op: OpView, blobs: Any) -> Results:
            single = NetDef(name=net.name, op=[op.proto])
            if net.HasField("device_option"):
                single.device_option.CopyFrom(net.device_option)
            prepared = self._prepared_once(single)
            if prepared.fills:
                draw = int(self._random.integers(2**62))
                made = run_fill(prepared.fills[0], {}, net, draw, 0)
                return Results({op.outputs[0]: made}, {}, {})
            assert prepared.program is not None
            return prepared.program.run_given(prepared.program.collect(blobs), self._filled)

        with self._lock:
            return trace_net(net, self._blobs, self._commit, run, bodies=bodies, capture=capture)


def _is_init(net: NetDef) -> bool:
    """Whether a net reads nothing that it does not make."""
    made: set[str] = set()
    for op in net.op:
        if not made.issuperset(op.input) or any(arg.HasField("n") or arg.nets for arg in op.arg):
            return False
        made.update(op.output)
    return True


def as_net(net: Net) -> NetDef:
    """The NetDef that is meant. Raises NetFormatError where it is none."""
    if isinstance(net, InitNet):
        return net.net
    if hasattr(net, "Proto"):
        net = net.Proto()
    return as_net_def(net)


def as_operator(operator: Any) -> OperatorDef:
    """The OperatorDef that is meant: this project's, Caffe2's own, or its bytes. Raises RunError where it is none."""
    if isinstance(operator, OperatorDef):
        return operator
    if isinstance(operator, Message) and type(operator).DESCRIPTOR.name == "OperatorDef":
        operator = operator.SerializeToString()
    if not isinstance(operator, bytes):
        raise RunError(f"expected an OperatorDef, got {type(operator).__name__}")
    return OperatorDef.FromString(operator)
