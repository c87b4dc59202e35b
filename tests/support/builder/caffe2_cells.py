"""Builds the cells of test_cells_oracle.py with Caffe2's own helpers: caffe2_cells.py CASES.json NETS.npz.

Runs in real Caffe2's python (3.8) and imports nothing of this project. The request is a JSON list of cases: ``name``,
``cell`` (see build), ``states`` (how many), ``lengths``, ``grads`` (indices of the results that receive a
gradient), ``trains``.
The response has ``<name>/forward`` and ``<name>/train``, serialized nets, and ``meta``: by ``<name>/forward`` and
``<name>/train`` the output, the results, the parameters, and the gradients by blob.
"""
# The interpreter that runs this has Caffe2 and another NumPy.
# mypy: ignore-errors
# ruff: noqa: UP006, UP035 - Python 3.8 subscribes neither dict nor tuple

import json
import sys
from pathlib import Path
from typing import Any, Dict, Tuple

import numpy as np
from caffe2.python import attention, core, gru_cell, rnn_cell
from caffe2.python.model_helper import ModelHelper

Spec = Dict[str, Any]
CELLS = {
    "BasicRNN": rnn_cell.BasicRNNCell,
    "LSTM": rnn_cell.LSTMCell,
    "GRU": gru_cell.GRUCell,
    "MILSTM": rnn_cell.MILSTMCell,
    "LayerNormLSTM": rnn_cell.LayerNormLSTMCell,
    "LayerNormMILSTM": rnn_cell.LayerNormMILSTMCell,
}
ATTENTION = {
    "regular": attention.AttentionType.Regular,
    "recurrent": attention.AttentionType.Recurrent,
    "dot": attention.AttentionType.Dot,
    "soft_coverage": attention.AttentionType.SoftCoverage,
}


def build(spec: Spec, forward_only: bool) -> Any:
    """Return a cell from its description: ``kind``, and what the constructor of that kind takes."""
    spec = dict(spec)
    kind = spec.pop("kind")
    if kind == "Multi":
        cells = [build(inner, forward_only) for inner in spec.pop("cells")]
        return rnn_cell.MultiRNNCell(cells, forward_only=forward_only, **spec)
    if kind == "Dropout":
        cell = build(spec.pop("cell"), forward_only)
        ratio = spec.pop("ratio")
        return rnn_cell.DropoutCell(cell, dropout_ratio=ratio, forward_only=forward_only, **spec)
    if kind == "Unrolled":
        return rnn_cell.UnrolledCell(build(spec["cell"], forward_only), spec["steps"])
    if kind == "Attention":
        return rnn_cell.AttentionCell(
            encoder_output_dim=spec["encoder_output_size"],
            encoder_outputs=core.BlobReference(spec["encoder_outputs"]),
            encoder_lengths=core.BlobReference(spec["encoder_lengths"]) if spec["encoder_lengths"] else None,
            decoder_cell=build(spec["decoder"], forward_only),
            decoder_state_dim=spec["decoder"].get("cells", [spec["decoder"]])[-1]["hidden_size"],
            attention_type=ATTENTION[spec["attention_type"]],
            weighted_encoder_outputs=None,
            attention_memory_optimization=spec.get("memory_optimization", False),
            name=spec["name"],
            forward_only=forward_only,
        )
    spec.setdefault("forget_bias", 0.0)
    spec.setdefault("memory_optimization", False)
    spec["name"] = spec.get("name") or None
    return CELLS[kind](forward_only=forward_only, **spec)


def net_of(case: Spec, forward_only: bool) -> Tuple[ModelHelper, Spec]:
    """Return a net of one cell with a loss, and what is what in it."""
    model = ModelHelper(name="net")
    cell = build(case["cell"], forward_only)
    states = [core.BlobReference(f"state_{i}") for i in range(case["states"])] or None
    covering = case["cell"].get("attention_type") == "soft_coverage"
    if covering:
        states[-1] = cell.build_initial_coverage(model)
    output, results = cell.apply_over_sequence(
        model,
        "x",
        seq_lengths=core.BlobReference("seq_lengths") if case["lengths"] else None,
        initial_states=states,
        outputs_with_grads=case["grads"],
    )
    weighted = model.net.Mul([output, "weights"], "weighted")
    loss = model.net.SumElements(weighted, "loss")
    gradients = {} if forward_only else model.net.AddGradientOperators([loss])
    meta = {
        "output": str(output),
        "results": [str(blob) for blob in results],
        "parameters": sorted(str(blob) for blob in model.params),
        "gradients": {str(blob): str(grad) for blob, grad in gradients.items()},
    }
    return model, meta


def main(request: str, response: str) -> None:
    """Build every net of the request."""
    cases = json.loads(Path(request).read_text())
    meta, arrays = {}, {}
    for case in cases:
        for key, forward_only in (("/forward", True), ("/train", False)):
            if not forward_only and not case["trains"]:
                continue
            model, meta[case["name"] + key] = net_of(case, forward_only)
            arrays[case["name"] + key] = np.frombuffer(model.net.Proto().SerializeToString(), np.uint8)
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    np.savez_compressed(response, **arrays)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
