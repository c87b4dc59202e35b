"""Blobs of a run that are computed after it, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from caffe2_backend.runtime.values import Tensor, Value


class LateBlobs:
    """Blobs of one run, kept once they are computed.

    Args:
        compute: computes a blob by name from the inputs of a run with a number, and may compute others with it.
        ask: called with the name of a blob that was computed already, when somebody asks for it, and the run's number.
        given: the inputs of the run.
        run: its number.
    """

    __slots__ = ("_ask", "_compute", "_given", "_run", "_values")

    def __init__(
        self,
        compute: Callable[[str, Mapping[str, Value], int], Mapping[str, Tensor]],
        ask: Callable[[str, int], object],
        given: Mapping[str, Value],
        run: int,
    ) -> None:
        self._compute = compute
        self._ask = ask
        self._given = given
        self._run = run
        self._values: dict[str, Tensor] = {}

    def __call__(self, name: str) -> Tensor:
        """Return one blob. Raises RunError if it is not a tensor."""
        if name in self._values:
            self._ask(name, self._run)
        else:
            self._values.update(self._compute(name, self._given, self._run))
        return self._values[name]
