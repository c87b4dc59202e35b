"""Golden models in the runtime of ExecuTorch: its own kernels, and those of XNNPACK.

T is any up to a maximum, and N fixed: ExecuTorch 1.5.1 copies the initial states of a scan into tensors of the largest
N.
"""

from __future__ import annotations

import warnings
from typing import Any, Final

import pytest
from support.golden_modules import MODELS, assert_same, golden_module

pytestmark = [pytest.mark.torch, pytest.mark.slow]

torch: Any = pytest.importorskip("torch")
pytest.importorskip("executorch", reason="executorch is not installed; no extra of this project has it")

NO_WHILE: Final = pytest.mark.xfail(reason="ExecuTorch 1.5.1 has no while_loop", strict=True)
NAMES: Final = [
    pytest.param(path.name, marks=NO_WHILE if path.name.startswith("control_while") else ())
    for path in sorted(MODELS.iterdir())
]


@pytest.mark.parametrize("name", NAMES)
def test_golden_models_run_in_executorch(name: str) -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    made, inputs = golden_module(name)
    sizes = [value.shape for value in inputs[0]]
    fed = [values for values in inputs if [value.shape for value in values] == sizes]
    if any(map(is_sequence, inputs[0])):
        fed.append(tuple(value[:2] if is_sequence(value) else value for value in inputs[0]))
    assert len(fed) > 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of its own
        exported = torch.export.export(made, inputs[0], dynamic_shapes=(tuple(map(open_steps, inputs[0])),))
        for partitioners in ([], [XnnpackPartitioner()]):
            for results, values in zip(executed(exported, partitioners, fed), fed, strict=True):
                assert_same(results, made(*values))


def is_sequence(value: Any) -> bool:
    """Whether an input is [T, N, D]; initial states are [1, N, D]."""
    return value.dim() == 3 and value.shape[0] > 1


def open_steps(value: Any) -> dict[int, Any]:
    return {0: torch.export.Dim.AUTO(max=32)} if is_sequence(value) else {}


def executed(exported: Any, partitioners: list[Any], fed: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Compile a program, load it in the runtime, and return what it computes."""
    from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch.runtime import Runtime

    # ExecuTorch 1.5.1: of a view of what cond or scan returns, other tensors take the memory.
    config = ExecutorchBackendConfig(remove_view_copy=False)
    compiled = to_edge_transform_and_lower(exported, partitioner=partitioners).to_executorch(config)
    method = Runtime.get().load_program(compiled.buffer).load_method("forward")
    return [tuple(value.clone() for value in method.execute(values)) for values in fed]
