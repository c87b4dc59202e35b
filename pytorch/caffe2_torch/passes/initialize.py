"""Run what an init net computes."""

from __future__ import annotations

from dataclasses import replace

import torch

from caffe2_bridge.passes import FunctionalPass
from caffe2_torch.conversion import Conversion
from caffe2_torch.evaluation.context import Context
from caffe2_torch.evaluation.values import value_of_parameter


class Initialize(FunctionalPass[Conversion]):
    """``GivenTensorFill, XavierFill``  =>  values by blob."""

    requires = frozenset({"inputs"})

    def __call__(self, state: Conversion) -> Conversion:
        """Run operators that are no constants once, now: random fills, say."""
        init = state.model.init
        assert state.program is not None
        assert state.initialize is not None
        outputs = {*state.model.predict_net.external_output}
        read = state.program.found | (outputs - state.program.written)
        wanted = read | state.initialize.found
        blobs = {name: value_of_parameter(init.parameters[name]) for name in init.parameters if name in wanted}
        with torch.no_grad():
            state.initialize.run(blobs, Context())
        return replace(state, values={name: value for name, value in blobs.items() if name in read})
