"""What onnxruntime copies between host and GPU, predicted, against its own partition of the golden models.

The recorded copies are the Memcpy nodes of the models that its CUDA provider saves after partition, without other
optimizations, but for those of constants. They were read without a GPU: the provider was loaded over CUDA libraries
that compute nothing. The stage ``copies`` of scripts/gpu counts them on a GPU.
"""

from __future__ import annotations

import json
from typing import Final

import onnx_ir as ir
import pytest
from conformance.corpus import find_cases, read_case
from support.paths import MODELS, SUPPORT

from caffe2_backend.runtime.placement.graph import place_graph
from caffe2_bridge.model import Model
from caffe2_frontend import Recurrent, to_onnx

RECORDED: Final = json.loads((SUPPORT / "data" / "cuda_copies.json").read_text())["copies"]
# Predicted with three others of 14 values.
NEARLY: Final = {"attention_train": 3}
# Recorded before the form "auto" fused them.
FORMS: Final[dict[str, Recurrent]] = {"basic_rnn_relu": "scan", "basic_rnn_tanh": "scan"}


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_copies_are_those_of_onnxruntime(name: str) -> None:
    case = read_case(find_cases(MODELS / name)[0])
    inputs = {blob: (str(value.dtype), [None] * value.ndim) for blob, value in case.inputs.items()}
    form = FORMS.get(name, "auto")
    found = place_graph(ir.from_proto(to_onnx(Model.of(case.net, case.init_net), inputs=inputs, recurrent=form)))

    if found.reasons:
        assert name == "gru"
        assert found.reasons == {1: "GRU has no CUDA kernel that resets before the product (linear_before_reset=0)"}
        return
    assert len(set(found.copies) ^ set(RECORDED[name])) == NEARLY.get(name, 0)
