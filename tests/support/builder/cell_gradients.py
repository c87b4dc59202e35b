"""Exported gradients of random cells against PyTorch's autograd in double."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from support.builder.random_cells import D, RandomCell, draw
from support.exports import run, specs_of

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx
from caffe2_frontend.targets.target import Recurrent

Arrays = dict[str, np.ndarray[Any, Any]]


@cache
def cell(seed: int) -> RandomCell:
    """Return the random cell of a seed."""
    return draw(seed)


def inputs_of(drawn: RandomCell, steps: int, batch: int) -> Arrays:
    """Return inputs of another size; parameters keep their values unless they have a batch."""
    values = np.random.default_rng(steps * 10 + batch)
    sizes = {"x": (steps, batch, D)}
    result = {}
    for name, value in drawn.inputs.items():
        shape = sizes.get(name, (1, batch, D) if value.ndim == 3 else value.shape)
        result[name] = values.standard_normal(shape).astype(np.float32) / 2
    return result


def exported(
    drawn: RandomCell,
    form: Recurrent,
    inputs: Mapping[str, Any],
    *,
    sizes: bool = False,
    net: NetDef | None = None,
    **options: Any,
) -> Any:
    """Return the model that returns the loss and the gradients; of ``net`` instead of the cell's own."""
    outputs = ["loss", *drawn.gradients.values()]
    described = specs_of(inputs, sizes=sizes)
    return to_onnx(net or drawn.net.proto, inputs=described, outputs=outputs, recurrent=form, **options)


def expected(drawn: RandomCell, inputs: Arrays) -> list[Any]:
    """Return the loss and the gradients, in double."""
    import torch
    from support.builder.torch_nets import run as run_torch

    loss = next(index for index, op in enumerate(drawn.net.proto.op) if "loss" in op.output)
    known = {
        name: torch.tensor(value)
        if value.dtype.kind == "i"
        else torch.tensor(value, dtype=torch.float64, requires_grad=True)
        for name, value in inputs.items()
    }
    held = dict(known)
    run_torch(NetDef(op=drawn.net.proto.op[: loss + 1]), held)
    held["loss"].backward()
    return [held["loss"].detach().numpy(), *(known[name].grad for name in drawn.gradients)]


def compare(drawn: RandomCell, model: Any, inputs: Arrays) -> None:
    """Assert that a model returns the loss and the gradients."""
    for name, got, want in zip(["loss", *drawn.gradients], run(model, inputs), expected(drawn, inputs), strict=True):
        assert got.shape == want.shape, name
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=name)
