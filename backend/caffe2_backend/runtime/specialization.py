"""A net for one kind of inputs: a session, and how values go in and come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from caffe2_backend.runtime.sessions import Session
from caffe2_backend.runtime.values import Array, DeviceTensor, Int8Tensor, Tensor, Value, on_host
from caffe2_bridge.netdef.parameters import Parameter


@dataclass(frozen=True)
class Variant:
    """The net for one kind of inputs.

    Attributes:
        session: what runs; None where there is nothing to compute.
        inputs: the blobs that it reads.
        outputs: the blobs that it gives, and ``graph_outputs`` their names there.
        quantized: (scale, zero point) of those that are Int8 tensors.
        later: blobs of the net that it does not give.
        plain: whether all is on the host.
        arrays: whether all are numbers in arrays of the host, and nothing needs to be changed on the way.
    """

    session: Session | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    quantized: Mapping[str, tuple[float, int]]
    later: tuple[str, ...]
    plain: bool
    arrays: bool
    graph_outputs: list[str]

    def run(self, given: Mapping[str, Value]) -> dict[str, Tensor]:
        """The outputs. Raises RunError where the run fails."""
        if self.session is None:
            return {}
        if self.arrays:
            # The common case, and the one in which what is done here counts.
            inputs = self.inputs
            arrays: Any = given if len(given) == len(inputs) else {name: given[name] for name in inputs}
            return dict(zip(self.outputs, self.session.run_list(arrays, self.graph_outputs), strict=True))
        feed: dict[str, Any] = {}
        for name in self.inputs:
            value = given[name]
            feed[name] = value.data if isinstance(value, Int8Tensor) else value
        found: dict[str, Tensor]
        if self.plain:
            for name, value in feed.items():
                if isinstance(value, DeviceTensor):
                    feed[name] = value.numpy()
            found = dict(zip(self.outputs, self.session.run_list(feed, self.graph_outputs), strict=True))
        else:
            values = self.session.run_on_device(feed)
            found = {name: values[other] for name, other in zip(self.outputs, self.graph_outputs, strict=True)}
        for name, (scale, zero) in self.quantized.items():
            found[name] = Int8Tensor(on_host(found[name]), scale, zero)
        return found


def as_parameter(name: str, value: Value) -> Parameter:
    """A tensor as the constant of a net."""
    if isinstance(value, Int8Tensor):
        data = value.data
        return Parameter(name, data.dtype, data.shape, lambda: data, value.scale, value.zero_point)
    assert isinstance(value, np.ndarray | DeviceTensor)
    array: Array = on_host(value)
    return Parameter(name, array.dtype, array.shape, lambda: array)
