"""The attributes of a module in source: layers, parameters and buffers, with their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

from caffe2_bridge.control import If, RecurrentNetwork, While
from caffe2_torch.evaluation.program import Program, ProgramStep
from caffe2_torch.evaluation.values import Value
from caffe2_torch.source.names import Identifiers, literal
from caffe2_torch.source.scope import Key, NameScope, Scopes

_SUFFIXES = ("_weight", "_w", "_W", ".w", "/w", "_scale", "_s")


@dataclass
class ModuleState:
    """What ``__init__`` makes.

    Attributes:
        values: the constants of the net, by blob.
        learned: the blobs that gradients reach.
        scalings: scale and zero point of those that are Int8 tensors, whose values are the data.
        lines: the statements of ``__init__``.
        weights: the values of the state dict, by its names.
        blobs: the blob of each of them.
        helpers: the names of the functions that the source needs.
    """

    values: Mapping[str, Value]
    learned: Collection[str]
    scalings: Mapping[str, tuple[float, int]]
    lines: list[str] = field(default_factory=list)
    weights: dict[str, torch.Tensor] = field(default_factory=dict)
    blobs: dict[str, str] = field(default_factory=dict)
    helpers: set[str] = field(default_factory=set)
    names: Identifiers = field(default_factory=lambda: Identifiers([*dir(nn.Module()), "inputs", "outputs"]))
    reads: Counter[Key] = field(default_factory=Counter)
    writes: set[Key] = field(default_factory=set)
    _attributes: dict[str, str] = field(default_factory=dict)

    def count_uses(self, program: Program, scopes: Scopes, scope: NameScope) -> None:
        """Count reads and writes of all operators. Moments that SpatialBN updates in place are its own."""
        for step in program.steps:
            self.reads.update(scope.key(name) for name in _read(step))
            self.writes.update(scope.key(name) for name in _written(step))
            for argument, body in step.bodies.items():
                inside = scopes.inside(step, argument, scope)
                self.count_uses(body, scopes, inside)
                if isinstance(step.control, RecurrentNetwork):  # the operator keeps the rows that the step net writes
                    self.reads.update(inside.key(link.internal) for link in step.control.spec.writes())

    def constant(self, blob: Key) -> torch.Tensor | None:
        """Return the value of a parameter that no operator writes; None for another blob."""
        value = self.values.get(blob) if isinstance(blob, str) else None
        return value if isinstance(value, torch.Tensor) and blob not in self.writes else None

    def attribute(self, blob: str) -> str:
        """Return the expression of a parameter or buffer."""
        if blob not in self._attributes:
            value = self.values[blob]
            assert isinstance(value, torch.Tensor)
            name = self.names.of(blob)
            if value.is_floating_point() and blob in self.learned:
                self.lines.append(f"self.{name} = nn.Parameter({_empty(value)})")
            else:
                self.lines.append(f"self.register_buffer({literal(name)}, {_empty(value)})")
            self._attributes[blob] = name
            self.weights[name], self.blobs[name] = value, blob
        return f"self.{self._attributes[blob]}"

    def owns(self, *blobs: Key) -> bool:
        """Whether the blobs are constants that one operator alone reads."""
        return all(self.constant(blob) is not None and self.reads[blob] == 1 for blob in blobs)

    def layer(self, constructor: str, values: Mapping[str, tuple[str, torch.Tensor]]) -> str:
        """Return the expression of a layer; ``values`` are the blob and value of each of its parameters, by name."""
        first = next(blob for blob, _ in values.values())
        name = next((first.removesuffix(s) for s in _SUFFIXES if first.endswith(s) and first != s), first)
        attribute = self.names.of(("layer", first), name)
        self.lines.append(f"self.{attribute} = {constructor}")
        for part, (blob, value) in values.items():
            self.weights[f"{attribute}.{part}"] = value
            if blob:
                self.blobs[f"{attribute}.{part}"] = blob
        return f"self.{attribute}"


def _read(step: ProgramStep) -> Iterable[str]:
    """Return the blobs that an operator itself reads; not those that its bodies read."""
    control = step.control
    if control is None:
        return [name for name in step.view.inputs if name]
    if isinstance(control, RecurrentNetwork):
        spec = control.spec
        states = {state.blob for state in spec.states}
        rows = [link.external for link in spec.reads() if link.external not in states]
        return [step.view.inputs[0], *(step.view.inputs[state.initial] for state in spec.states), *rows]
    return step.view.inputs[:1] if isinstance(control, If | While) else ()


def _written(step: ProgramStep) -> set[str]:
    outputs: Iterable[str] = step.view.outputs
    if step.view.type == "SpatialBN":
        outputs = [name for name in outputs if name not in step.view.inputs[3:5]]
    created = step.control.creates if isinstance(step.control, RecurrentNetwork) else ()
    return {name for name in (*outputs, *created) if name}


def _empty(value: torch.Tensor) -> str:
    dims = ", ".join(map(str, value.shape)) if value.dim() else "()"
    dtype = "" if value.dtype == torch.float32 else f", dtype={value.dtype}"
    return f"torch.empty({dims}{dtype})"
