"""Profiles: how long each operator of a net takes on a device, measured, and the cost model that they give."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Self, TypeAlias

from caffe2_bridge.devices.cuda import has_cuda_version
from caffe2_bridge.devices.device import Device, as_device
from caffe2_bridge.diagnostics import BridgeError, NetFormatError
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_bridge.storage import Location, locate, read_file

_FORMAT: Final = "caffe2-bridge profile"
_VERSION: Final = 1
_Key: TypeAlias = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class BlobProfile:
    """A blob that an operator read or wrote; ``dtype`` and ``shape`` are empty for an object."""

    name: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class OperatorProfile:
    """One operator of a net.

    Attributes:
        index: its index in the net.
        type: its type.
        name: its name.
        inputs: what it read.
        outputs: what it wrote.
        seconds: the time of each measured run.
    """

    index: int
    type: str
    name: str
    inputs: tuple[BlobProfile, ...]
    outputs: tuple[BlobProfile, ...]
    seconds: tuple[float, ...]

    @property
    def key(self) -> _Key:
        """What identifies the operator in a net."""
        return self.type, tuple(blob.name for blob in self.inputs), tuple(blob.name for blob in self.outputs)


@dataclass(frozen=True, slots=True)
class Profile:
    """The measured operators of a net on one device: ``net`` is its name, ``device`` as text."""

    net: str
    device: str
    operators: tuple[OperatorProfile, ...]

    def to_json(self) -> str:
        """Return the profile as JSON."""
        return json.dumps({"format": _FORMAT, "version": _VERSION, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str, source: str = "") -> Self:
        """Read a profile. Raises NetFormatError if the text is not one."""
        try:
            found = json.loads(text)
            if found["format"] != _FORMAT or found["version"] != _VERSION:
                raise NetFormatError(f"the file is not a profile of version {_VERSION}", source)
            operators = tuple(_operator(operator) for operator in found["operators"])
            return cls(str(found["net"]), str(as_device(found["device"])), operators)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise NetFormatError(f"the file is not a profile: {error!r}", source) from None

    @classmethod
    def read(cls, path: Location) -> Self:
        """Read a file that ``caffe2-bridge profile`` wrote. Raises NetFormatError if it is not one."""
        where = locate(path)
        try:
            text = read_file(where).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise NetFormatError(f"the profile cannot be read: {error}", str(where)) from None
        return cls.from_json(text, str(where))


def _operator(found: Mapping[str, Any]) -> OperatorProfile:
    blobs = {
        side: tuple(
            BlobProfile(str(b["name"]), str(b["dtype"]), tuple(map(int, b["shape"])), int(b["bytes"]))
            for b in found[side]
        )
        for side in ("inputs", "outputs")
    }
    seconds = tuple(map(float, found["seconds"]))
    if not seconds or min(seconds) < 0:
        raise ValueError("an operator must have times that are not negative")
    return OperatorProfile(int(found["index"]), str(found["type"]), str(found["name"]), **blobs, seconds=seconds)


class ProfiledCosts:
    """A cost model for :func:`place`, in seconds: times are measured, copies take latency and size by bandwidth.

    An operator takes the median of its measured times; one that was not measured, such as those in bodies, takes the
    mean of its type, or the latency. On a GPU it can run if Caffe2 has a CUDA version of it.

    Args:
        profiles: profiles or their files: of the host, and, unless ``speedup`` is given, of a GPU.
        speedup: without a profile of a GPU, how many times as fast operators are there.
        bandwidth: of copies between devices, in bytes per second.
        latency: of a copy, in seconds.

    Raises BridgeError where two profiles are of one kind of device, or a number is not positive.
    """

    def __init__(
        self,
        *profiles: Profile | Path | str,
        speedup: float | None = None,
        bandwidth: float = 12e9,
        latency: float = 1e-5,
    ) -> None:
        for name, number in (("speedup", speedup), ("bandwidth", bandwidth), ("latency", latency)):
            if number is not None and not number > 0:
                raise BridgeError(f"{name} must be positive, not {number}")
        self._times: dict[str, _Times] = {}
        self._sizes: dict[str, int] = {}
        for given in profiles:
            profile = given if isinstance(given, Profile) else Profile.read(given)
            kind = as_device(profile.device).kind
            if kind in self._times:
                raise BridgeError(f"two profiles are of the device {kind}")
            self._times[kind] = _Times(profile)
            for operator in profile.operators:
                for blob in (*operator.inputs, *operator.outputs):
                    self._sizes[blob.name] = max(blob.bytes, self._sizes.get(blob.name, 0))
        self._speedup = speedup
        self._bandwidth = bandwidth
        self._latency = latency

    def operator(self, op: OperatorDef, device: Device) -> float | None:
        """Return the seconds of an operator on a device; None where it cannot run there, or nothing was measured."""
        if device.is_gpu and not has_cuda_version(op):
            return None
        times = self._times.get(device.kind)
        if times is not None:
            return times.of(op, self._latency)
        host = self._times.get("cpu")
        if host is None or self._speedup is None:
            return None
        return host.of(op, self._latency) / self._speedup

    def transfer(self, blob: str) -> float:
        """Return the seconds of a copy."""
        return self._latency + self.memory(blob) / self._bandwidth

    def memory(self, blob: str) -> int:
        """Return the bytes of a blob; 0 if it was not measured."""
        return self._sizes.get(blob, 0)


class _Times:
    def __init__(self, profile: Profile) -> None:
        found: defaultdict[_Key, list[float]] = defaultdict(list)
        by_type: defaultdict[str, list[float]] = defaultdict(list)
        for operator in profile.operators:
            seconds = sorted(operator.seconds)[len(operator.seconds) // 2]
            found[operator.key].append(seconds)
            by_type[operator.type].append(seconds)
        self._exact = {key: fmean(times) for key, times in found.items()}
        self._by_type = {kind: fmean(times) for kind, times in by_type.items()}

    def of(self, op: OperatorDef, default: float) -> float:
        known = self._exact.get((op.type, tuple(op.input), tuple(op.output)))
        return self._by_type.get(op.type, default) if known is None else known
