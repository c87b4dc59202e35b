"""Metadata on carried states."""

from __future__ import annotations

import json
from typing import ClassVar

from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.recurrent.stateful import STATES_KEY
from caffe2_frontend.state import Export


class RecordStates(InPlacePass[Export]):
    """Record in the model's metadata which output feeds which input of the next call, for a stateful export."""

    requires: ClassVar[frozenset[str]] = frozenset({"graph", "opset"})
    ensures: ClassVar[frozenset[str]] = frozenset({"states"})

    def __call__(self, state: Export) -> None:
        """Write the metadata."""
        if state.model is not None and state.states:
            names = [value.name for value in state.graph.outputs]
            feeds = {initial: names[index] for initial, index in state.states.items()}
            state.model.metadata_props[STATES_KEY] = json.dumps(feeds)
