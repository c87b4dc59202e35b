"""The module of a net."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import nn

from caffe2_bridge.diagnostics import Location, RunError
from caffe2_bridge.diagnostics.nearest import nearest_first
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_torch.assembly import compile_net
from caffe2_torch.conversion import Conversion
from caffe2_torch.evaluation.context import Context
from caffe2_torch.evaluation.program import Program
from caffe2_torch.evaluation.values import Value, result_of, value_of
from caffe2_torch.functions.int8 import Quantized
from caffe2_torch.parameter_names import attribute_names, reached_by_gradients
from caffe2_torch.recurrent.fuse import fuse_cells


class NetModule(nn.Module):
    """A Caffe2 net as a PyTorch module; :func:`caffe2_torch.to_torch` makes it.

    Attributes:
        inputs: names of the blobs to feed, in the order of positional arguments.
        outputs: names of the blobs that are returned, in order.
        names: the blobs that are parameters and buffers, each with the name that it has in ``state_dict``.
    """

    def __init__(self, conversion: Conversion) -> None:
        super().__init__()
        assert conversion.program is not None
        net = conversion.model.predict_net
        self.inputs = tuple(conversion.inputs)
        self.outputs = tuple(conversion.outputs)
        self._net = net.SerializeToString()
        self._program: Program | None = conversion.program
        self._fused: Program | None = None
        self._real = torch.float32
        self._constants = {n: v for n, v in conversion.values.items() if not isinstance(v, torch.Tensor)}
        tensors = {n: v for n, v in conversion.values.items() if isinstance(v, torch.Tensor)}
        self.names = attribute_names(tensors, taken=lambda name: hasattr(self, name))
        learned = reached_by_gradients(net)
        for blob, attribute in self.names.items():
            value = tensors[blob]
            if value.is_floating_point() and blob in learned:
                self.register_parameter(attribute, nn.Parameter(value))
            else:
                self.register_buffer(attribute, value)
        written = {name for op in net.op for name in op.output}
        self._updated = tuple(blob for blob, name in self.names.items() if blob in written and name in self._buffers)

    def forward(self, *arguments: Any) -> Any:
        """Run the net.

        Args:
            *arguments: one dict of values by blob name, or the values of ``inputs`` in order: tensors, NumPy arrays,
                arrays of str for string tensors, and ``caffe2_bridge.Int8Tensor``.

        Returns:
            A dict by blob name for a dict; else the values of ``outputs``, one alone or a tuple.

        Raises:
            RunError: an input is missing or unknown, or an operator failed; the message names it.
        """
        if len(arguments) == 1 and isinstance(arguments[0], Mapping):
            return self.run(arguments[0])
        if len(arguments) != len(self.inputs):
            raise RunError(f"the net has {len(self.inputs)} inputs ({', '.join(self.inputs)}), not {len(arguments)}")
        results = self.run(dict(zip(self.inputs, arguments, strict=True)))
        found = tuple(results[name] for name in self.outputs)
        return found[0] if len(found) == 1 else found

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, Any]:
        """Run the net for inputs by name.

        Args:
            inputs: values by blob name; those of parameters may be among them, for this run.
            outputs: names of any blobs that the net computes, each by its operator; None for ``outputs``, for which
                recurrent nets run as layers of PyTorch where they are equal. Those without a value are left out.

        Raises RunError as a call does.
        """
        self._require_known(inputs)
        missing = [name for name in self.inputs if name not in inputs]
        if missing:
            raise RunError(f"input {missing[0]!r} is missing")
        context = self._context(inputs.values())
        blobs: dict[str, Value] = dict(self._constants)
        blobs.update((blob, getattr(self, attribute)) for blob, attribute in self.names.items())
        blobs.update((name, value_of(value, context.device)) for name, value in inputs.items())
        wanted = self.outputs if outputs is None else tuple(outputs)
        program = self._fused_program() if outputs is None else self._compiled()
        if context.device is None or context.device.type == "cpu":
            program.run(blobs, context, {*wanted, *self._updated})
        else:
            with context.device:  # what operators create is created there
                program.run(blobs, context, {*wanted, *self._updated})
        self._keep_statistics(blobs)
        return {name: result_of(blobs[name]) for name in wanted if _is_value(blobs.get(name))}

    def _require_known(self, given: Iterable[str]) -> None:
        known = {*self.inputs, *self.names, *self._constants}
        unknown = [name for name in given if name not in known]
        if unknown:
            names = ", ".join(map(repr, nearest_first(self.inputs, unknown)))
            raise RunError(f"the net has no input {unknown[0]!r}: its inputs are {names or 'none'}")

    def _context(self, inputs: Iterable[Any]) -> Context:
        """Return the device of the parameters, of the inputs where there are none, and the element type of fills."""
        known = [value for value in (*self.parameters(), *self.buffers()) if value.is_floating_point()]
        held = known or [value for value in inputs if isinstance(value, torch.Tensor)]
        return Context(held[0].device if held else None, self._real, self.training)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        """Convert parameters and buffers, as ``half`` and ``to`` do, and the element type of fills like them."""
        self._real = fn(torch.empty(0, dtype=self._real)).dtype
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call] # PyTorch's

    def _keep_statistics(self, blobs: Mapping[str, Value]) -> None:
        """Keep what the net writes over its buffers, such as running means, as PyTorch's layers do in training."""
        if not self.training:
            return
        for blob in self._updated:
            value, buffer = blobs.get(blob), getattr(self, self.names[blob])
            if isinstance(value, torch.Tensor) and value.shape == buffer.shape and value is not buffer:
                buffer.copy_(value.detach())

    def _compiled(self) -> Program:
        if self._program is None:
            net = NetDef.FromString(self._net)
            self._program = compile_net(net, Location(net.name or "predict"), [])
        return self._program

    def _fused_program(self) -> Program:
        if self._fused is None:
            ranks = {blob: getattr(self, name).dim() for blob, name in self.names.items()}
            kept = {*self.outputs, *self._updated}
            self._fused = fuse_cells(self._compiled(), NetDef.FromString(self._net), ranks, kept)
        return self._fused

    def __getstate__(self) -> dict[str, Any]:
        # Programs hold functions and protobufs; they are made again from the net.
        return {**self.__dict__, "_program": None, "_fused": None}

    def extra_repr(self) -> str:
        """See nn.Module."""
        return f"({', '.join(self.inputs)}) -> ({', '.join(self.outputs)})"


def _is_value(value: Value) -> bool:
    return value is not None and (not isinstance(value, Quantized) or value.data is not None)
