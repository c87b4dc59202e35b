"""Unroll a cell over a sequence of known length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from caffe2_bridge.builder.cells.wrapped import WrappedCell
from caffe2_bridge.builder.initializers import constant
from caffe2_bridge.builder.net import Net
from caffe2_bridge.builder.scope import Blob
from caffe2_bridge.diagnostics import BuildError
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CPU, DeviceOption, TensorProto


@dataclass(frozen=True, kw_only=True)
class UnrolledCell(WrappedCell):
    """A cell that is unrolled: a copy of its operators for each step, with shared parameters.

    Attributes:
        cell: the cell, whose name and forward_only are used instead of those of this one.
        steps: T, the length of the sequences.
    """

    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise BuildError(f"steps must be at least 1, not {self.steps}")

    def apply_over_sequence(
        self,
        net: Net,
        inputs: str,
        seq_lengths: str | None = None,
        initial_states: Sequence[str] | None = None,
        outputs_with_grads: Sequence[int] | None = None,
    ) -> tuple[Blob, tuple[Blob, ...]]:
        """Run the cell over a sequence of ``steps`` rows. See Cell; given initial states must be [1, N, D]."""
        states = self.starting_states(net, initial_states)
        prepared, unrolled = self.prepare_input(net, inputs)
        lengths = None if seq_lengths is None else net.blob(seq_lengths)
        rows = [prepared + f"_timestep_{t}" for t in range(self.steps)]
        net.op("Split", prepared, rows, axis=0)
        if initial_states is None:
            states = tuple(_expand_state(net, state, rows[0]) for state in states)
        all_states: list[tuple[Blob, ...]] = []
        for t, row in enumerate(rows):
            with net.name_scope(f"timestep_{t}", shares_parameters=True):
                timestep = _timestep(net, t)
                states = unrolled.step(net, self.step_input(net, row, lengths, states, timestep)).states
            all_states.append(states)
        joined = [self._joined(net, blobs) for blobs in zip(*all_states, strict=True)]
        results = tuple(blob for pair in zip(joined, states, strict=True) for blob in pair)
        if not self.cell.forward_only:
            wanted = {2 * self.output_state} if outputs_with_grads is None else set(outputs_with_grads)
            for index, blob in enumerate(results):
                if index not in wanted:
                    net.op("ZeroGradient", blob, ())
        return unrolled.sequence_output(net, results), results

    def _joined(self, net: Net, blobs: Sequence[Blob]) -> Blob:
        name = blobs[0].removeprefix(net.blob("timestep_0/"))
        output: Blob = net.op("Concat", blobs, (f"{name}_concat", f"{name}_concat_info"), axis=0)[0]
        return output


def _expand_state(net: Net, state: Blob, row: Blob) -> Blob:
    """Expand a state [D] to [1, N, D], with the N of a row [1, N, ...] of the sequence."""
    batch = net.op("Slice", net.op("Shape", row), starts=[1], ends=[2])
    vector = net.op("ExpandDims", state, state + "_row", dims=[0])
    rows = net.op("Tile", (vector, batch), state + "_rows", axis=0)
    return net.op("ExpandDims", rows, state + "_batch", dims=[0])


def _timestep(net: Net, number: int) -> Blob:
    """Return the step index, a constant on the host."""
    with net.device_scope(DeviceOption(device_type=PROTO_CPU)):
        return net.param(net.blob("timestep"), (1,), constant(number, TensorProto.INT32))
