"""Scatters by rows: what is recognized, and equal results where indices repeat."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from caffe2_backend.runtime.program.states.row_scatters import scatter_rows
from caffe2_backend.runtime.sessions.session import Session
from caffe2_frontend.interop.inference.shape_inference import infer_shapes

BODY = """
    c = Unsqueeze(i, one)
    s = Shape(u)
    e = Expand(c, s)
    q = ScatterElements<axis = 0, reduction = "add">(p, e, u)
"""


def model(
    body: str = BODY, rows: int = 9, count: int = 5, width: int = 3, outputs: str = "", kind: str = "float"
) -> ir.Model:
    text = (
        f'<ir_version: 9, opset_import: ["": 20]> g ({kind}[{rows},{width}] p, int64[{count}] i, '
        f"{kind}[{count},{width}] u) => ({kind}[{rows},{width}] q{outputs}) <int64[1] one = {{1}}> {{ {body} }}"
    )
    return ir.from_proto(infer_shapes(ir.to_proto(ir.from_onnx_text(text)), data_prop=True))


def types(net: ir.Model) -> list[str]:
    return [node.op_type for node in net.graph]


def test_rows_are_scattered_as_rows() -> None:
    net = model()
    scatter_rows(net, None)
    assert types(net) == ["Unsqueeze", "ScatterND"]
    assert [value.name for value in net.graph.outputs] == ["q"]


def test_what_others_read_stays() -> None:
    net = model(BODY + "o = Identity(e)", outputs=", int64[5,3] o")
    scatter_rows(net, None)
    assert sorted(types(net)) == ["Expand", "Identity", "ScatterND", "Shape", "Unsqueeze", "Unsqueeze"]


@pytest.mark.parametrize(
    ("threads", "count", "scattered"), [(1, 20_000, True), (2, 20_000, False), (None, 20_000, False), (2, 100, True)]
)
def test_rows_that_threads_could_share_are_not(threads: int | None, count: int, scattered: bool) -> None:
    net = model(count=count)
    scatter_rows(net, threads)
    assert ("ScatterND" in types(net)) is scattered


SCATTER = 'q = ScatterElements<axis = 0, reduction = "add">(p, e, u)'
OTHERS = {
    "reduction": BODY.replace("add", "mul"),
    "no reduction": BODY.replace(', reduction = "add"', ""),
    "axis": BODY.replace("axis = 0", "axis = 1"),
    "columns": f"s = Constant<value_ints = [5, 5]>() e = Expand(i, s) {SCATTER}",
    "other indices": f"z = Sub(i, i) c = Unsqueeze(z, one) e = Concat<axis = 1>(c, c, c) {SCATTER}",
}


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_other_scatters_stay(body: str) -> None:
    net = model(body, width=5 if "[5, 5]" in body else 3)
    before = types(net)
    scatter_rows(net, 1)
    assert types(net) == before


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize(("threads", "count"), [(1, 40_000), (4, 10_000)])
def test_repeated_indices_add_in_order(kind: str, threads: int, count: int) -> None:
    net = model(rows=4, count=count, kind=kind)
    other = net.clone()
    scatter_rows(other, threads)
    assert types(net) != types(other)
    random = np.random.default_rng(0)
    dtype = np.float32 if kind == "float" else np.float64
    feeds = {
        "p": random.standard_normal((4, 3)).astype(dtype),
        "i": random.integers(-4, 4, count),
        "u": random.standard_normal((count, 3)).astype(dtype),
    }
    expected, found = (
        Session(ir.to_proto(one).SerializeToString(), threads=threads).run(feeds)["q"] for one in (net, other)
    )
    np.testing.assert_array_equal(found, expected)
