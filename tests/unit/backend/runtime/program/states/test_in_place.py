"""The proof that a state may be updated in place: graphs where it holds, and graphs where one claim fails."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from caffe2_backend.runtime.program.states.in_place import order_readers, scattered, updated_in_place

TABLE = "float[9,2] p, int64[3,1] i, int64[3] j, float[3,2] u"
STATE = {"p": "q"}


def model(body: str, inputs: str = TABLE, outputs: str = "float[9,2] q") -> ir.Model:
    text = f'<ir_version: 9, opset_import: ["": 18]> g ({inputs}) => ({outputs}) {{ {body} }}'
    return ir.from_onnx_text(text)


SAFE = {
    "scatter": "q = ScatterND(p, i, u)",
    "scatter of elements": "k = Expand(i, s) s = Shape(u) q = ScatterElements<axis=0>(p, k, u)",
    "reader before": "r = GatherND(p, i) t = Add(r, u) q = ScatterND(p, i, t)",
    "elementwise": "r = Mul(p, p) q = Sub(p, r)",
    "readers only": "r = Mul(p, p) t = Neg(r) q = Relu(t)",
    "reader of a view before": "s = Constant<value_ints=[18]>() v = Reshape(p, s) m = ReduceMax<keepdims=1>(v) "
    "t = Add(u, m) q = ScatterND(p, i, t)",
    "reader of the new value": "q = ScatterND(p, i, u) r = Gather(q, j)",
    "body before": "c = Constant<value_ints=[1]>() b = Cast<to=9>(c) r = If(b)<then_branch = a () => (float[3,2] x) "
    "{ x = GatherND(p, i) }, else_branch = e () => (float[3,2] y) { y = Identity(u) }> "
    "t = Neg(r) q = ScatterND(p, i, t)",
}
UNSAFE = {
    "reader after": "q = ScatterND(p, i, u) n = Gather(q, j) k = Cast<to=7>(n) o = GatherElements(p, k)",
    "reader at any time": "q = ScatterND(p, i, u) o = Gather(p, j)",
    "reader of a view at any time": "s = Constant<value_ints=[18]>() v = Reshape(p, s) o = ReduceMax(v) "
    "q = ScatterND(p, i, u)",
    "body at any time": "c = Constant<value_ints=[1]>() b = Cast<to=9>(c) q = ScatterND(p, i, u) o = If(b)"
    "<then_branch = a () => (float[3,2] x) { x = GatherND(p, i) }, "
    "else_branch = e () => (float[3,2] y) { y = Identity(u) }>",
    "not element by element": "w = Transpose(p) t = MatMul(p, w) q = MatMul(t, p)",
    "view": "s = Constant<value_ints=[9,2]>() q = Reshape(p, s)",
    "updates from a view": "v = Identity(p) q = ScatterElements<axis=0>(p, k, v) k = Cast<to=7>(v)",
    "broadcast": "s = Constant<value_ints=[9,1,2]>() v = Reshape(p, s) t = Constant<value_ints=[9,2]>() "
    "w = Mul(p, v) m = ReduceMax<keepdims=0>(w, n) n = Constant<value_ints=[0]>() q = Sub(p, v)",
    "fused": "q = com.example.Fused(p, u)",
}


@pytest.mark.parametrize("name", SAFE)
def test_safe(name: str) -> None:
    made = model(SAFE[name])
    made.graph.sort()
    assert updated_in_place(made, STATE) == {"p"}


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe(name: str) -> None:
    made = model(UNSAFE[name])
    made.graph.sort()
    assert updated_in_place(made, STATE) == set()


def test_the_buffer_must_fit() -> None:
    for inputs, outputs in (
        ("float[N,2] p, int64[3,1] i, float[3,2] u", "float[N,2] q"),
        ("float[9,2] p, int64[3,1] i, float[3,2] u", "float[N,2] q"),
        ("float[9,2] p, int64[3,1] i, float[3,2] u", "float q"),
    ):
        assert updated_in_place(model("q = ScatterND(p, i, u)", inputs, outputs), STATE) == set()
    assert updated_in_place(model("q = Cast<to=11>(p)", outputs="double[9,2] q"), STATE) == set()


def test_an_input_that_is_an_output_is_kept() -> None:
    made = model("q = ScatterND(p, i, u)", outputs="float[9,2] q, float[9,2] p")
    assert updated_in_place(made, STATE) == set()


def test_readers_at_any_time_are_ordered_before_the_scatter() -> None:
    outputs = "float[9,2] q, float[3,2] o, float m"
    made = model("q = ScatterND(p, i, u) o = Gather(p, j) m = ReduceMax<keepdims=0>(p)", outputs=outputs)
    assert scattered(made, STATE) == {"p"}
    order_readers(made, STATE)
    assert updated_in_place(made, STATE) == {"p"}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(ir.to_proto(made).SerializeToString(), options)
    table = np.arange(18, dtype=np.float32).reshape(9, 2)
    value = onnxruntime.OrtValue.ortvalue_from_numpy(table.copy())
    binding = session.io_binding()
    binding.bind_ortvalue_input("p", value)
    binding.bind_ortvalue_output("q", value)
    rows = np.array([4, 0, 8])
    binding.bind_cpu_input("i", rows[:, None])
    binding.bind_cpu_input("j", rows)
    binding.bind_cpu_input("u", np.full((3, 2), 100, np.float32))
    binding.bind_output("o")
    binding.bind_output("m")
    session.run_with_iobinding(binding)
    found = binding.get_outputs()
    np.testing.assert_array_equal(found[1].numpy(), table[rows])
    assert found[2].numpy() == 17
    table[rows] = 100
    np.testing.assert_array_equal(value.numpy(), table)


def test_readers_after_the_scatter_stay() -> None:
    made = model(UNSAFE["reader after"])
    before = str(ir.to_proto(made))
    order_readers(made, STATE)
    assert str(ir.to_proto(made)) == before
