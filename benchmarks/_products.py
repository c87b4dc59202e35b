"""The matrix products of a recurrent net alone: the least time that it takes on onnxruntime.

A model of one MatMul for each product that ``Cell.products`` lists, run as often as the net runs it, one after
the other as the steps of a net are. Each run is a call of its own, a few microseconds: at small sizes the net may
take less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import _worker
import numpy as np
import onnx_ir as ir
from workloads.cells import CELLS, Product, Size

_OPSET: Final = 17
_FLOAT: Final = ir.TensorType(ir.DataType.FLOAT)


def run_products(cell: str, sizes: str, threads: str) -> None:
    """Serve the products of a cell of one size."""
    answers = _worker.own_stdout()
    size = Size(*map(int, sizes.split(",")))
    calls = [(product.times, _bind(product, int(threads))) for product in CELLS[cell].products_of(size)]

    def task() -> None:
        for times, call in calls:
            for _ in range(times):
                call()

    _worker.serve(answers, task, warm=1)


def _bind(product: Product, threads: int) -> Callable[[], Any]:
    """Return what runs one product, operands and result bound; a right operand that is a plain matrix is constant."""
    import onnxruntime as ort

    generator = np.random.default_rng(0)
    left, right = (generator.standard_normal(shape, dtype=np.float32) for shape in product.operands)
    is_weight = right.ndim == 2
    inputs = {"left": left} if is_weight else {"left": left, "right": right}
    values = [ir.Value(name=name, shape=ir.Shape(array.shape), type=_FLOAT) for name, array in inputs.items()]
    weights = [ir.Value(name="right", const_value=ir.Tensor(right), shape=ir.Shape(right.shape), type=_FLOAT)]
    node = ir.node("MatMul", [*values, *weights][:2])
    node.outputs[0].name, node.outputs[0].type = "product", _FLOAT
    graph = ir.Graph(
        values, node.outputs, nodes=[node], initializers=weights if is_weight else [], opset_imports={"": _OPSET}
    )
    graph.name = "product"
    model = ir.to_proto(ir.Model(graph, ir_version=8))
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    shape = (*left.shape[:-1], right.shape[-1])
    binding.bind_ortvalue_output("product", ort.OrtValue.ortvalue_from_shape_and_type(shape, np.float32))
    return lambda: session.run_with_iobinding(binding)
