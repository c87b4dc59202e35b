"""Blobs of a run that are computed after it, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from caffe2_backend.runtime.values import Tensor


class LateBlobs:
    """Blobs of one run, kept once they are computed.

    Args:
        compute: computes a blob by name, and may compute others with it.
        ask: called with the name of a blob that was computed already, when somebody asks for it.
    """

    __slots__ = ("_ask", "_compute", "_values")

    def __init__(self, compute: Callable[[str], Mapping[str, Tensor]], ask: Callable[[str], object]) -> None:
        self._compute = compute
        self._ask = ask
        self._values: dict[str, Tensor] = {}

    def __call__(self, name: str) -> Tensor:
        """One blob. Raises RunError if it is not a tensor."""
        if name in self._values:
            self._ask(name)
        else:
            self._values.update(self._compute(name))
        return self._values[name]
