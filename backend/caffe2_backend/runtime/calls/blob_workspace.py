"""Workspaces: named blobs, and nets that run on them, as in Caffe2."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, overload

import numpy as np
from google.protobuf.message import Message

from caffe2_backend.runtime.blobs.blob_store import BlobStore
from caffe2_backend.runtime.blobs.feeding import as_value
from caffe2_backend.runtime.blobs.files import IsolatedFiles
from caffe2_backend.runtime.blobs.frame import Frame
from caffe2_backend.runtime.blobs.host_fills import parameter_value, run_stored_fills, stored_fills
from caffe2_backend.runtime.blobs.results import DeferredBlob, Results, value_of
from caffe2_backend.runtime.devices.device_names import CPU, device_name
from caffe2_backend.runtime.host.registry import has_host_operators
from caffe2_backend.runtime.memory import lack_of_memory
from caffe2_backend.runtime.placement.report import Placement
from caffe2_backend.runtime.plans.nets_run_once import NetsRunOnce
from caffe2_backend.runtime.plans.prepared_net import PreparedNet, prepare_net
from caffe2_backend.runtime.process_bound import ProcessBound
from caffe2_backend.runtime.sessions.device_choice import choose_device, option_target
from caffe2_backend.runtime.sessions.onnxruntime_library import copy_to_device, real_device
from caffe2_backend.runtime.sessions.session_options import DEFAULTS, SessionOptions
from caffe2_backend.runtime.stepping.stepper import Trace, trace_net
from caffe2_backend.runtime.values import Array, DeviceTensor, HostObject, Int8Tensor, NoBlobError, Value, string_bytes
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.diagnostics.short_repr import short_repr
from caffe2_bridge.init.init_net import MESSAGE_LIMIT, InitNet
from caffe2_bridge.netdef.views import OpView, as_net_def
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef, OperatorDef
from caffe2_bridge.wire.messages import is_message

Net = Message | bytes | InitNet | Any


class Workspace(ProcessBound):
    """Named blobs, and nets that read and write them.

    Blobs persist: a blob that a net wrote can be fetched until it is overwritten. Different threads may feed, fetch
    and run at the same time; a run reads its inputs at one moment and writes its results at one moment. Runs that
    update the same blobs follow one another, so that no update is lost; others run in parallel.

    Args:
        device: None runs every operator where its device option says, or on the CPU (with one warning) on a machine
            without a GPU; ``cpu`` ignores device options (with one warning); ``cuda:N`` and ``webgpu`` run nets without
            device options there, and others with this GPU for those they name.
        options: of the sessions.
        seed: of random fills that have no seed of their own; None draws one.
        parent: a workspace whose blobs this one finds, too. Blobs that exist there are written there, others here.

    Raises RunError if the device is not supported.
    """

    def __init__(
        self,
        device: str | None = None,
        *,
        options: SessionOptions = DEFAULTS,
        seed: int | None = None,
        parent: Workspace | None = None,
    ) -> None:
        self._options = options
        self.device = self._checked(device)
        self._store: BlobStore = BlobStore(seed, None if parent is None else parent._store)  # noqa: SLF001 - the same class
        self._nets: dict[str, PreparedNet] = {}
        self._once = NetsRunOnce(self._prepare)
        self._lock = threading.RLock()
        self._warned = False

    def __repr__(self) -> str:
        return short_repr(self, blobs=tuple(self.blobs()), nets=tuple(self.nets()), device=self.device)

    def _checked(self, device: str | None) -> str | None:
        name = None if device is None else device_name(device)
        if name is not None:
            real_device(name, self._options)
        return name

    def set_device(self, device: str | None) -> None:
        """Run nets on another device from now on, those that were created too; values as in the constructor.

        Raises RunError if the device is not supported.
        """
        checked = self._checked(device)
        with self._lock:
            self.device = checked
            self._once.clear()
            self._nets = {name: self._prepare(prepared.net) for name, prepared in self._nets.items()}

    @classmethod
    def isolated(cls, device: str = CPU, *, options: SessionOptions = DEFAULTS) -> Workspace:
        """Make a workspace for nets that are only judged, on one device.

        Device options are ignored without a warning, random fills are the same each time, and the paths that nets name
        lie in a temporary folder of its own.
        """
        workspace = cls(device, options=options, seed=0)
        workspace._store.files = IsolatedFiles()
        workspace._warned = True
        return workspace

    @classmethod
    def of_store(cls, store: BlobStore) -> Workspace:
        """Return a workspace that has the blobs of another one, and nets of its own."""
        workspace = cls()
        workspace._store = store
        return workspace

    def child(self) -> Workspace:
        """Make a workspace with the device and options of this one, which is its parent."""
        return Workspace(self.device, options=self._options, parent=self)

    @property
    def root_folder(self) -> str:
        """Where operators that write files find relative paths."""
        return self._store.files.root

    @root_folder.setter
    def root_folder(self, folder: str) -> None:
        self._store.files.root = folder

    # Blobs

    def feed(self, name: str, value: Any, device: str | DeviceOption | None = None) -> None:
        """Set a blob.

        Args:
            name: the blob.
            value: an array, a number or list of them, an Int8Tensor, a text, or a tensor of a library that supports
                DLPack, such as torch. Host values are copied; a tensor on a GPU stays there, and its memory is shared.
            device: where to put a host value; default the host. A device option is treated as those of nets: it is
                ignored on a machine without a GPU, and where the workspace's device is ``cpu``.

        Raises RunError if the name is not a text, the value is none of these, or the device is not supported.
        """
        if not isinstance(name, str):
            raise RunError(f"the name of a blob must be a text, not {name!r}")
        fed = as_value(name, value, copy=True)
        if isinstance(device, DeviceOption):
            device = option_target(device, self.device, self._options)
        if device is not None and device_name(device) != CPU:
            if not isinstance(fed, np.ndarray):
                raise RunError(f"blob {name!r}: only a tensor of numbers on the host can be copied to {device}")
            fed = copy_to_device(fed, device_name(device), real_device(device_name(device), self._options))
        self._store.set(name, fed)

    @overload
    def fetch(self, name: str, *, on_device: Literal[True]) -> Array | Int8Tensor | DeviceTensor | bytes: ...
    @overload
    def fetch(self, name: str, *, on_device: Literal[False] = False) -> Array | Int8Tensor | bytes: ...
    def fetch(self, name: str, *, on_device: bool = False) -> Array | Int8Tensor | DeviceTensor | bytes:
        """Copy a blob: an array (of bytes objects for strings), an Int8Tensor, or the bytes of a text.

        With ``on_device`` a tensor on a device is returned as it is, without a copy. Raises NoBlobError if the blob
        does not exist or has no value, RunError if it is not a tensor, or there is not enough memory.
        """
        try:
            with self._store.lock:  # until it is copied: a run may overwrite it afterwards
                return self._copied(name, value_of(name, self._store.view), on_device=on_device)
        except MemoryError as error:
            raise lack_of_memory(f"blob {name!r}", error) from error

    def _copied(self, name: str, value: Value | None, *, on_device: bool) -> Array | Int8Tensor | DeviceTensor | bytes:
        if value is None:
            if self._store.has(name):
                raise NoBlobError(f"blob {name!r} does not have a value yet")
            raise NoBlobError(f"the workspace has no blob {name!r}")
        if isinstance(value, HostObject):
            raise RunError(f"blob {name!r} is not a tensor: it is {value.description}")
        if isinstance(value, bytes):
            return value
        if isinstance(value, DeviceTensor):
            if on_device:
                # The workspace goes on with another object: a run updates only such values in place as it alone has.
                self._store.set(name, DeviceTensor(value.ort, value.device))
                return value
            return value.numpy()
        if isinstance(value, Int8Tensor):
            return Int8Tensor(value.data.copy(), value.scale, value.zero_point)
        return string_bytes(value) if value.dtype == object else value.copy()

    def host_array(self, name: str) -> Array:
        """Return a tensor's elements themselves, to be read or changed; a blob of a device is copied to the host first.

        Raises as :meth:`fetch`, and RunError if the blob is not a tensor of numbers or texts.
        """
        with self._store.updating((name,)), self._store.lock:
            value = value_of(name, self._store)
            if not isinstance(value, np.ndarray):
                fetched = self._copied(name, value, on_device=False)
                if not isinstance(fetched, np.ndarray):
                    raise RunError(f"blob {name!r} is not a tensor with an array of elements")
                value = fetched
            elif self._store.constants.get(name) is value:  # nets may have it as a constant: another object changes
                value = value.copy()
            self._store.set(name, value)
            return value

    def set_deferred(self, name: str, value: DeferredBlob) -> None:
        """Set a blob to a value that is computed when it is read."""
        self._store.set(name, value)

    def holds(self, name: str, value: object) -> bool:
        """Whether a blob's value is this object itself."""
        return self._store.get(name) is value

    def host_object(self, name: str) -> HostObject | None:
        """Return the object in a blob; None if it does not exist, has no value, or is a tensor or a text."""
        with self._store.lock:
            value = self._store.get(name)
        return value if isinstance(value, HostObject) else None

    def has_blob(self, name: str) -> bool:
        """Whether a blob exists, with or without a value."""
        return self._store.has(name)

    def create_blob(self, name: str) -> None:
        """Create a blob without a value; one that exists keeps its value."""
        self._store.create(name)

    def blobs(self) -> list[str]:
        """Return the names of all blobs, sorted."""
        return sorted(self._store.names())

    def local_blobs(self) -> list[str]:
        """Return the names of the blobs that are not the parent's, sorted."""
        return sorted(self._store.own_names())

    def remove_blob(self, name: str) -> bool:
        """Remove a blob; return whether it existed."""
        return self._store.remove(name)

    def remove_blobs(self) -> None:
        """Remove all blobs, and what nets wrote in the folder of an isolated workspace; nets stay."""
        self._store.reset()

    def reset(self) -> None:
        """Remove all blobs and nets."""
        self._store.reset()
        with self._lock:
            self._nets.clear()
            self._once.clear()

    # Nets

    def run_net_once(self, net: Net) -> None:
        """Run a net.

        The net is a NetDef of this project or of Caffe2, its bytes, an object with ``Proto()``, or a model's ``init``.
        Raises ConversionError if it cannot be converted, RunError if a blob is missing or the run fails.
        """
        if isinstance(net, InitNet) and (fills := stored_fills(net)) is not None:
            self._device_of(fills)
            self._store.commit(Results(run_stored_fills(net, fills, self._store.draw_seed())), constant=True)
            return
        if isinstance(net, InitNet) and net.stored_bytes > MESSAGE_LIMIT:
            for name, parameter in net.parameters.items():
                self._store.commit(Results({name: parameter_value(parameter)}), constant=True)
            net = NetDef(name="init", op=[op.proto for op in net.rest], device_option=net.device)
        with self._once.lent(as_net(net)) as prepared:
            prepared.run(self._store)

    def run_operator_once(self, operator: Message | bytes, times: int = 1) -> None:
        """Run one operator, ``times`` times with what it keeps from run to run; raises as :meth:`run_net_once`."""
        with self._once.lent(NetDef(op=[as_operator(operator)])) as prepared:
            for _ in range(times):
                prepared.run(self._store)

    def create_net(self, net: Net, *, overwrite: bool = False) -> str:
        """Prepare a net to be run by name, and return the name. The net is converted when it first runs.

        Raises RunError if a net of this name exists, unless ``overwrite``.
        """
        proto = as_net(net)
        prepared = self._prepare(proto)
        with self._lock:
            if proto.name in self._nets and not overwrite:
                raise RunError(f"net {proto.name!r} exists already")
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
            every_blob: run operator by operator, and return what each wrote: slow, to find out where a net goes wrong.
            bodies: with ``every_blob``, step through the bodies of If, While, Do and RecurrentNetwork, too.
            capture: with ``every_blob``, whether values are kept; if not, only the workspace is written.

        Raises as :meth:`run_net_once`; also RunError if the net does not exist.
        """
        prepared = self._created(name)
        if every_blob:
            trace = Trace()
            for _ in range(times):
                trace = self._trace(prepared, bodies=bodies, capture=capture)
            return trace
        if times == 1:
            prepared.run(self._store)
            return None
        while times > 0:
            burst = self._store.burst(times)
            prepared.run(self._store, burst)
            times -= burst.steps
        return None

    def run_burst(self, name: str, go_on: Callable[[], bool]) -> int:
        """Run a net that was created, and again while ``go_on`` is true, for the time of a burst: how often it ran.

        ``go_on`` may have been true once more than that: where a run failed, which the next one repeats, to raise its
        error. Raises as :meth:`run_net`.
        """
        burst = self._store.burst(sys.maxsize, go_on)
        self._created(name).run(self._store, burst)
        return burst.steps

    def nets(self) -> list[str]:
        """Return the names of the nets that were created."""
        with self._lock:
            return list(self._nets)

    def net(self, name: str) -> NetDef:
        """Return the net created under a name; it must not be changed. Raises RunError if it does not exist."""
        return self._created(name).net

    def placements(self, name: str) -> list[Placement]:
        """Return where the operators of a net without device options run on a GPU, as of its last new kind of inputs.

        One for each part between operators on the host; none for a net that was not placed automatically, or has not
        run. Raises RunError if the net does not exist.
        """
        return self._created(name).placements

    def remove_net(self, name: str) -> bool:
        """Remove a net that was created; return whether it existed."""
        with self._lock:
            return self._nets.pop(name, None) is not None

    def conversions(self) -> int:
        """Return how many conversions of nets there were: a run on inputs of a kind seen before adds none."""
        with self._lock:
            kept = list(self._nets.values())
        return sum(prepared.conversions for prepared in kept) + self._once.conversions

    def _created(self, name: str) -> PreparedNet:
        """Return a net that was created. Raises RunError if it does not exist."""
        prepared = self._nets.get(name)  # without the lock, which takes as long as much of a tiny net
        if prepared is None:
            raise RunError(f"net {name!r} does not exist: create it first")
        return prepared

    def _prepare(self, net: NetDef) -> PreparedNet:
        return prepare_net(net, self._device_of(net), self._options)

    def _device_of(self, net: NetDef) -> str | None:
        """Return the device for a net; warns once where it is not what the net asks for."""
        device, warning = choose_device(net, self.device, self._options, f"net {net.name!r}")
        if warning and not self._warned:
            self._warned = True
            warnings.warn(warning, RuntimeWarning, stacklevel=6)
        return device

    def _trace(self, traced: PreparedNet, *, bodies: bool, capture: bool) -> Trace:
        net, store = traced.net, self._store

        def run(op: OpView, frame: Frame) -> None:
            single = NetDef(name=net.name, op=[op.proto])
            if net.HasField("device_option"):
                single.device_option.CopyFrom(net.device_option)
            prepared = self._once.shared(single)
            with frame.updating(prepared.states):
                frame.commit(prepared.run_operator(frame, store, net))

        trace = partial(
            trace_net, net, store.view, store.commit, run, bodies=bodies, capture=capture, files=store.files
        )
        if has_host_operators(net):  # which may wait for another thread
            return trace(updating=store.updating)
        with store.updating(traced.states), store.lock:  # nobody else writes blobs meanwhile
            return trace()


def as_net(net: Net) -> NetDef:
    """Convert to a NetDef. Raises NetFormatError if it is not one."""
    if isinstance(net, InitNet):
        return net.net
    if hasattr(net, "Proto"):
        net = net.Proto()
    return as_net_def(net)


def as_operator(operator: Any) -> OperatorDef:
    """Convert an OperatorDef of this project or of Caffe2, or its bytes. Raises RunError if it is none of these."""
    if isinstance(operator, OperatorDef):
        return operator
    if is_message(operator, "OperatorDef"):
        operator = operator.SerializeToString()
    if not isinstance(operator, bytes):
        raise RunError(f"expected an OperatorDef, got {type(operator).__name__}")
    return OperatorDef.FromString(operator)
