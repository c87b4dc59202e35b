"""What is said of inputs and weights that were synthesized."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caffe2_backend.runtime.values import Int8Tensor
from caffe2_cli.output.echo import message, say

if TYPE_CHECKING:
    from caffe2_validation.inputs.generate import Generated


def print_synthesized(made: Generated, seed: int, *, inputs: bool = True) -> None:
    """Print to stderr what was synthesized with a seed: weights, and, but where they were given, inputs."""
    for name, value in made.cases[0].inputs.items() if inputs else ():
        array = value.data if isinstance(value, Int8Tensor) else value
        say(f"synthesized input {name}: {array.dtype}{list(array.shape)} (seed {seed})", err=True)
    if made.weights:
        say(f"synthesized weights: {len(made.weights)} (seed {seed})", err=True)
    for note in made.notes:
        message("note", note)
