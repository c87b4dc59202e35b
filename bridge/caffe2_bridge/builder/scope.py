"""Names of blobs and the scopes they are made in."""

from __future__ import annotations

from dataclasses import dataclass

from caffe2_bridge.proto.caffe2_pb2 import DeviceOption


class Blob(str):
    """The whole name of a blob: no name scope is put in front of it. Any other text is named within the scope."""

    __slots__ = ()

    def __add__(self, suffix: str) -> Blob:
        """The name with a suffix, whole as well."""
        return Blob(super().__add__(suffix))


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a net is being extended.

    Attributes:
        names: what is put in front of blob names, ending in ``/`` where it is not empty.
        parameters: the same for names of parameters. It lacks those parts of ``names`` that share parameters.
        device: the device of new operators.
    """

    names: str = ""
    parameters: str = ""
    device: DeviceOption | None = None

    def enter(self, name: str, *, shares_parameters: bool) -> Scope:
        """The scope ``name`` within this one; the same where ``name`` is empty."""
        part = f"{name}/" if name else ""
        return Scope(self.names + part, self.parameters + ("" if shares_parameters else part), self.device)

    def on(self, device: DeviceOption | None) -> Scope:
        """The same scope on a device."""
        return Scope(self.names, self.parameters, device)

    def blob(self, name: str) -> Blob:
        """The whole name of a blob."""
        return name if isinstance(name, Blob) else Blob(self.names + name)

    def parameter(self, name: str) -> Blob:
        """The whole name of a parameter."""
        return name if isinstance(name, Blob) else Blob(self.parameters + name)
