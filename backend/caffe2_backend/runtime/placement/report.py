"""The report of a placement: what runs on the GPU, what stays on the host and why, and what is copied."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostOperator:
    """An operator that stays on the host; ``location`` is where it is in the net."""

    location: str
    reason: str


@dataclass(frozen=True)
class Placement:
    """Where the operators of a net run that was given a GPU and has no device options.

    Attributes:
        device: the GPU.
        operators: the number of operators of the net.
        on_host: those that stay on the host; a loop or branch does as a whole.
        transfers: the blobs that the plan copies between runs on the two devices, each with the device it is copied to.
        copies: values within runs on the GPU that onnxruntime copies to or from the host, because a kernel wants them
            there; those of a loop once an iteration.
    """

    device: str
    operators: int
    on_host: tuple[HostOperator, ...] = ()
    transfers: tuple[tuple[str, str], ...] = ()
    copies: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return a line for each fact."""
        lines = [f"{self.operators - len(self.on_host)} of {self.operators} operators run on {self.device}"]
        lines += [f"{found.location} stays on the host: {found.reason}" for found in self.on_host]
        lines += [f"{blob} is copied to {device}" for blob, device in self.transfers]
        lines += [f"{value} is copied within the run on {self.device}" for value in self.copies]
        return "\n".join(lines)
