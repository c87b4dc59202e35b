"""Recurrent nets on a GPU, beside PyTorch's cuDNN: all in one process, with inputs and outputs on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir
from gpu_suite.results import record
from workloads.cells import CELLS, Cell, Sample, Size, sample, torch_weights

from caffe2_backend.runtime.sessions.session import Session
from caffe2_backend.runtime.values import to_host
from caffe2_bridge import ConversionError
from caffe2_frontend import ExportOptions, Recurrent, convert
from gpu.measuring import device_tensor, measure, require_cuda, torch_device

MILLI: Final = 1000
FORMS: Final[tuple[Recurrent, ...]] = ("fused", "scan")
RTOL, ATOL = 1e-2, 1e-3  # cuDNN may multiply in TF32


def run(cases: Sequence[tuple[str, Size]]) -> int:
    """Measure and record each cell and size; 1 if a result differs from that on the CPU."""
    require_cuda()
    same = [_compare(name, CELLS[name], size) for name, size in cases]
    return 0 if all(same) else 1


def _compare(name: str, cell: Cell, size: Size) -> bool:
    given = sample(cell, size)
    torch_ms = _torch_milliseconds(cell, size, given)
    expected: dict[str, Any] = {}
    same = True
    for form in FORMS:
        try:
            data = _export(given, form)
        except ConversionError as error:
            record(f"{name} {form} {size}", "skipped", reason=error.errors[0].reason)
            continue
        if not expected:
            expected = Session(data).run(given.inputs)
        session = Session(data, "cuda:0")
        feed = {key: device_tensor(value) for key, value in given.inputs.items()}
        found = session.run_on_device(feed)
        good = all(np.allclose(to_host(found[key]), value, RTOL, ATOL) for key, value in expected.items())
        figures = {"ours_ms": measure(lambda session=session, feed=feed: session.run_on_device(feed)) * MILLI}
        if torch_ms:
            figures |= {"torch_ms": torch_ms, "to_torch": figures["ours_ms"] / torch_ms}
        record(f"{name} {form} {size}", "measured" if good else "failed",
               reason="" if good else "differs from the CPU", **figures)  # fmt: skip
        same &= good
    return same


def _export(given: Sample, form: Recurrent) -> bytes:
    inputs = {name: (str(array.dtype), [None] * array.ndim) for name, array in given.inputs.items()}
    model = convert(given.net, given.init_net(), ExportOptions(inputs=inputs, recurrent=form))
    return ir.to_proto(model).SerializeToString()


def _torch_milliseconds(cell: Cell, size: Size, given: Sample) -> float:
    """Return PyTorch's time on the same weights; 0 where it has no such module, or is not installed."""
    device = torch_device()
    if not (cell.module and device):
        return 0.0
    import torch

    module = getattr(torch.nn, cell.module)(size.D, size.H).to(device).eval()
    weights = torch_weights(cell, given.weights)
    module.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    kept = [
        torch.from_numpy(given.inputs[key]).to(device) for key in ("input", "init_0", "init_1") if key in given.inputs
    ]
    state = tuple(kept[1:]) if cell.module == "LSTM" else kept[1]
    with torch.no_grad():
        call: Callable[[], Any] = lambda: module(kept[0], state)  # noqa: E731 - the call that is measured
        return measure(call) * MILLI
