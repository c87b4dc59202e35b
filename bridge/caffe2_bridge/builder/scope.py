"""Names of blobs, and the scopes in which they are created."""

from __future__ import annotations

from dataclasses import dataclass

from caffe2_bridge.proto.caffe2_pb2 import DeviceOption


class Blob(str):
    """The full name of a blob, to which the name scope is not applied; it is applied to any other str."""

    __slots__ = ()

    def __add__(self, suffix: str) -> Blob:
        """Return the name with a suffix, also a full name."""
        return Blob(super().__add__(suffix))


@dataclass(frozen=True, slots=True)
class OperatorScope:
    """The scope of new operators.

    Attributes:
        names: the prefix of the names of blobs; empty or ending in ``/``.
        parameters: the prefix of the names of parameters: ``names`` without the parts that share parameters.
        device: the device of new operators.
    """

    names: str = ""
    parameters: str = ""
    device: DeviceOption | None = None

    def enter(self, name: str, *, shares_parameters: bool) -> OperatorScope:
        """Return the scope ``name`` within this scope; this scope if ``name`` is empty."""
        part = f"{name}/" if name else ""
        return OperatorScope(self.names + part, self.parameters + ("" if shares_parameters else part), self.device)

    def on(self, device: DeviceOption | None) -> OperatorScope:
        """Return this scope with another device."""
        return OperatorScope(self.names, self.parameters, device)

    def blob(self, name: str) -> Blob:
        """Return the full name of a blob."""
        return name if isinstance(name, Blob) else Blob(self.names + name)

    def parameter(self, name: str) -> Blob:
        """Return the full name of a parameter."""
        return name if isinstance(name, Blob) else Blob(self.parameters + name)
