"""Metadata of exported training nets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import onnx

# The metadata key of the mapping from each updated input to the output that is its value in the next step, as JSON.
UPDATES_KEY: Final = "caffe2.parameters.updated"
# The metadata key of the list of outputs that gradients start from, as JSON.
LOSSES_KEY: Final = "caffe2.losses"


@dataclass(frozen=True)
class TrainingMetadata:
    """What the metadata of a training model say: the output that feeds each updated input, and the losses."""

    updates: Mapping[str, str]
    losses: tuple[str, ...]


def read_training_metadata(model: onnx.ModelProto) -> TrainingMetadata | None:
    """Read the metadata; None if the model is not an exported training net, or does not have what they name."""
    found = {entry.key: entry.value for entry in model.metadata_props}
    try:
        updates, losses = json.loads(found[UPDATES_KEY]), json.loads(found.get(LOSSES_KEY, "[]"))
    except (KeyError, ValueError):
        return None
    outputs = {value.name for value in model.graph.output}
    inputs = {value.name for value in model.graph.input}
    if not (isinstance(updates, dict) and updates.keys() <= inputs and outputs.issuperset(map(str, updates.values()))):
        return None
    known = tuple(name for name in losses if name in outputs) if isinstance(losses, list) else ()
    return TrainingMetadata(updates, known)
