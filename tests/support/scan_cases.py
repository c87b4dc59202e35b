"""Scans of every kind, with their inputs and the operator that they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
from onnx import parser

LENGTHS = (1, 2, 6)  # with the executor's four workspaces, six steps come back to the first


@dataclass(frozen=True)
class Case:
    """A graph as text, the operator that its Scan becomes, and its inputs: element type and dims, T among them."""

    text: str
    inputs: dict[str, tuple[Any, tuple[int | str, ...]]]
    becomes: str = "RecurrentNetwork"
    opset: int = 20
    by_reference: bool = False  # onnxruntime errs: bodies that give out what they are given, float16 without rounding

    def model(self) -> onnx.ModelProto:
        return parser.parse_model(f'<ir_version: 9, opset_import: ["": {self.opset}]> {self.text}')

    def values(self, steps: int) -> dict[str, Any]:
        rng = np.random.default_rng(steps)
        return {
            name: random_values(rng, dtype, [steps if dim == "T" else int(dim) for dim in dims])
            for name, (dtype, dims) in self.inputs.items()
        }


def random_values(rng: np.random.Generator, dtype: Any, dims: Sequence[int]) -> Any:
    if np.dtype(dtype).kind == "f":
        return np.asarray(rng.normal(size=dims), dtype)
    return np.asarray(rng.integers(0, 2 if dtype is bool else 100, size=dims), dtype)


F = np.float32
X: Final[dict[str, tuple[Any, tuple[int | str, ...]]]] = {"x": (F, ("T", 3))}

CASES = {
    # States: how many, their ranks, what is known of their dims.
    "one_state": Case(
        """g (float[T,3] x, float[3] z) => (float[3] y, float[T,3] s) {
        y, s = Scan<num_scan_inputs = 1, body = b (float[3] h, float[3] r) => (float[3] h2, float[3] o)
          { h2 = Add(h, r) o = Mul(h2, r) }>(z, x) }""",
        {**X, "z": (F, (3,))},
    ),
    "no_state": Case(
        """g (float[T,3] x) => (float[T,3] s) {
        s = Scan<num_scan_inputs = 1, body = b (float[3] r) => (float[3] o) { o = Sin(r) }>(x) }""",
        X,
    ),
    "no_stacked_output": Case(
        """g (float[T,3] x, float[3] z) => (float[3] y) {
        y = Scan<num_scan_inputs = 1, body = b (float[3] h, float[3] r) => (float[3] h2) { h2 = Add(h, r) }>(z, x) }""",
        {**X, "z": (F, (3,))},
    ),
    "scalar_state": Case(
        """g (float[T] x, float z) => (float y, float[T] s) {
        y, s = Scan<num_scan_inputs = 1, body = b (float h, float r) => (float h2, float o)
          { h2 = Add(h, r) o = Mul(h2, r) }>(z, x) }""",
        {"x": (F, ("T",)), "z": (F, ())},
    ),
    "states_of_ranks_one_to_three": Case(
        """g (float[T,3] x, float[3] a, float[2,3] b, float[2,1,3] c)
           => (float[3] p, float[2,3] q, float[2,1,3] r, float[T,2,1,3] s) {
        p, q, r, s = Scan<num_scan_inputs = 1,
          body = f (float[3] a1, float[2,3] b1, float[2,1,3] c1, float[3] v)
            => (float[3] a2, float[2,3] b2, float[2,1,3] c2, float[2,1,3] o)
          { a2 = Add(a1, v) b2 = Sub(b1, a2) c2 = Mul(c1, v) o = Add(c2, v) }>(a, b, c, x) }""",
        {**X, "a": (F, (3,)), "b": (F, (2, 3)), "c": (F, (2, 1, 3))},
    ),
    "batch_of_matrices": Case(
        """g (float[T,N,3] x, float[N,3] a, float[1,N,3] b)
           => (float[N,3] p, float[1,N,3] q, float[T,N,3] s, float[T,1,N,3] u, float[T,N,2,3] w) {
        p, q, s, u, w = Scan<num_scan_inputs = 1,
          body = f (float[N,3] a1, float[1,N,3] b1, float[N,3] v)
            => (float[N,3] a2, float[1,N,3] b2, float[N,3] k, float[1,N,3] m, float[N,2,3] o) {
            a2 = Add(a1, v) b2 = Mul(b1, v) k = Identity(a2) m = Neg(b2)
            two = Constant<value_ints = [1]>() e = Unsqueeze(k, two) o = Concat<axis = 1>(e, e) }>(a, b, x) }""",
        {"x": (F, ("T", 2, 3)), "a": (F, (2, 3)), "b": (F, (1, 2, 3))},
    ),
    "batch_with_a_dim_of_one": Case(
        """g (float[T,1,N,3] x, float[T,1,N,1] v, float[N,1] a, float[1,N,3] b)
           => (float[N,1] p, float[1,N,3] q, float[T,N] s, float[T,1,N] u) {
        p, q, s, u = Scan<num_scan_inputs = 2,
          body = f (float[N,1] a1, float[1,N,3] b1, float[1,N,3] r, float[1,N,1] k)
            => (float[N,1] a2, float[1,N,3] b2, float[N] c, float[1,N] d) {
            minus = Constant<value_ints = [-1]>() zero = Constant<value_ints = [0]>()
            c0 = Squeeze(k, zero) a2 = Add(a1, c0) c = Squeeze(a2, minus)
            b2 = Mul(b1, r) d = ReduceSum<keepdims = 0>(b2, minus)
          }>(a, b, x, v) }""",
        {"x": (F, ("T", 1, 2, 3)), "v": (F, ("T", 1, 2, 1)), "a": (F, (2, 1)), "b": (F, (1, 2, 3))},
    ),
    "state_of_unknown_dims": Case(
        """g (float[T,A] x, float[P,Q] z) => (float[R,S] y, float[T,R,S] s) {
        y, s = Scan<num_scan_inputs = 1, body = b (float[P,Q] h, float[A] r) => (float[P,Q] h2, float[P,Q] o)
          { h2 = Add(h, r) o = Mul(h, r) }>(z, x) }""",
        {**X, "z": (F, (2, 3))},
    ),
    "formals_that_say_nothing": Case(
        """g (float[T,3] x, float[2,3] z) => (float[2,3] y, float[T,2,3] s) {
        y, s = Scan<num_scan_inputs = 1, body = b (h, r) => (h2, o)
          { h2 = Add(h, r) o = Mul(h, r) }>(z, x) }""",
        {**X, "z": (F, (2, 3))},
    ),
    "state_that_goes_through": Case(
        """g (float[T,3] x, float[3] z, float[3] w) => (float[3] y, float[3] k, float[T,3] s, float[T,3] u) {
        y, k, s, u = Scan<num_scan_inputs = 1, body = b (float[3] h, float[3] c, float[3] r)
          => (float[3] c, float[3] h, float[3] r, float[3] w) { n = Neg(r) }>(z, w, x) }""",
        {**X, "z": (F, (3,)), "w": (F, (3,))},
        by_reference=True,
    ),
    "one_result_for_two_states": Case(
        """g (float[T,3] x, float[3] z) => (float[3] y, float[3] k, float[T,1,3] s) {
        y, k, s = Scan<num_scan_inputs = 1, body = b (float[3] h, float[3] c, float[3] r)
          => (float[3] h2, float[3] h2, float[1,3] o) { p = Add(h, c) h2 = Sub(p, r) zero = Constant<value_ints = [0]>()
            o = Unsqueeze(h2, zero) }>(z, z, x) }""",
        {**X, "z": (F, (3,))},
        by_reference=True,
    ),
    # Sequences and outputs: how many, axes, directions.
    "axes_and_directions": Case(
        """g (float[2,T,3] x, float[3,T] v, float[T,3] w, float[3] z)
           => (float[3] y, float[2,T,3] s, float[3,T] u, float[2,3,T] k) {
        y, s, u, k = Scan<num_scan_inputs = 3, scan_input_axes = [1, -1, 0], scan_input_directions = [1, 0, 1],
            scan_output_axes = [-2, 1, 2], scan_output_directions = [0, 1, 1],
          body = b (float[3] h, float[2,3] p, float[3] q, float[3] r)
            => (float[3] h2, float[2,3] o, float[3] h3, float[2,3] p2)
          { m = Add(q, r) h2 = Sub(m, h) o = Mul(p, h2) h3 = Identity(h2) p2 = Identity(p) }>(z, x, v, w) }""",
        {"x": (F, (2, "T", 3)), "v": (F, (3, "T")), "w": (F, ("T", 3)), "z": (F, (3,))},
    ),
    "one_sequence_both_ways": Case(
        """g (float[T,3] x) => (float[T,3] s) {
        s = Scan<num_scan_inputs = 2, scan_input_directions = [0, 1],
          body = b (float[3] p, float[3] q) => (float[3] o) { o = Sub(p, q) }>(x, x) }""",
        X,
    ),
    "integers_beside_a_float_state": Case(
        """g (int64[2,T] i, bool[T,2] b, int32[T] n, float z, int64[2] k) => (float y, float[T] s) {
        y, s = Scan<num_scan_inputs = 3, scan_input_axes = [1, 0, 0], scan_input_directions = [0, 1, 1],
          body = f (float h, int64[2] i1, bool[2] b1, int32 n1) => (float h2, float o) {
            c = Where(b1, i1, k) d = ReduceSum<keepdims = 0>(c) e = Cast<to = 1>(d) n2 = Cast<to = 1>(n1)
            h2 = Add(h, e) o = Sub(n2, h2) }>(z, i, b, n) }""",
        {
            "i": (np.int64, (2, "T")), "b": (bool, ("T", 2)), "n": (np.int32, ("T",)), "z": (F, ()),
            "k": (np.int64, (2,)),
        },
    ),
    # Element types of states and of what is stacked.
    "bool_and_narrow_states": Case(
        """g (float[T,2] x, bool[2] b, uint8[2] u, int8 i, float zero)
           => (bool[2] p, uint8[2] q, int8 r, bool[2,T] k, uint8[T,2] m) {
        p, q, r, k, m = Scan<num_scan_inputs = 1, scan_output_axes = [1, 0], scan_output_directions = [1, 0],
          body = d (bool[2] b1, uint8[2] u1, int8 i1, float[2] v)
            => (bool[2] b2, uint8[2] u2, int8 i2, bool[2] o, uint8[2] u3) {
            o = Less(v, zero) b2 = Xor(b1, o) c = Cast<to = 2>(b2) u2 = Add(u1, c) i2 = Neg(i1) u3 = Identity(u2)
          }>(b, u, i, x) }""",
        {"x": (F, ("T", 2)), "b": (bool, (2,)), "u": (np.uint8, (2,)), "i": (np.int8, ()), "zero": (F, ())},
    ),
    "float16_state": Case(
        """g (float[T,2] x, float16[2] f) => (float16[2] s, float16[T,2] m) {
        s, m = Scan<num_scan_inputs = 1, body = d (float16[2] f1, float[2] v) => (float16[2] f2, float16[2] f3) {
            w = Cast<to = 10>(v) f2 = Add(f1, w) f3 = Identity(f2) }>(f, x) }""",
        {"x": (F, ("T", 2)), "f": (np.float16, (2,))},
        by_reference=True,
    ),
    "int64_state": Case(
        """g (int64[T] x, int64 z) => (int64 y, int64[T] s) {
        y, s = Scan<num_scan_inputs = 1, body = b (int64 h, int64 r) => (int64 h2, int64 o)
          { h2 = Add(h, r) o = Mul(h2, r) }>(z, x) }""",
        {"x": (np.int64, ("T",)), "z": (np.int64, ())},
        "ONNXWhile",
    ),
    "int32_state_beside_a_float": Case(
        """g (float[T,3] x, int32[3] n, float[3] z) => (int32[3] m, float[3] y, float[T,3] s) {
        m, y, s = Scan<num_scan_inputs = 1, body = b (int32[3] n1, float[3] h, float[3] r)
          => (int32[3] n2, float[3] h2, float[3] o)
          { n2 = Add(n1, n1) h2 = Add(h, r) f = Cast<to = 1>(n2) o = Mul(h2, f) }>(n, z, x) }""",
        {**X, "n": (np.int32, (3,)), "z": (F, (3,))},
        "ONNXWhile",
    ),
    "double_state": Case(
        """g (double[T] x, double z) => (double y) {
        y = Scan<num_scan_inputs = 1, body = b (double h, double r) => (double h2) { h2 = Add(h, r) }>(z, x) }""",
        {"x": (np.float64, ("T",)), "z": (np.float64, ())},
        "ONNXWhile",
    ),
    "int64_output": Case(
        """g (float[T,3] x, float[3] z) => (float[3] y, int64[3,T] s) {
        y, s = Scan<num_scan_inputs = 1, scan_output_axes = [1], body = b (float[3] h, float[3] r)
          => (float[3] h2, int64[3] o) { h2 = Add(h, r) o = Cast<to = 7>(h2) }>(z, x) }""",
        {**X, "z": (F, (3,))},
        "ONNXWhile",
    ),
    "output_of_unknown_dims": Case(
        """g (float[T,3] x, float[3] z, float[K] w) => (float[3] y, float[T,L] s) {
        a = Shape(w) d = Cast<to = 1>(a) k = Cast<to = 7>(d)
        y, s = Scan<num_scan_inputs = 1, body = b (float[3] h, float[3] r) => (float[3] h2, float[L] o)
          { h2 = Add(h, r) o = Reshape(h2, k) }>(z, x) }""",
        {**X, "z": (F, (3,)), "w": (F, (3,))},
        "ONNXWhile",
    ),
    "state_of_no_entries": Case(
        """g (float[T,3] x, float[0] z) => (float[0] y, float[T,3] s) {
        y, s = Scan<num_scan_inputs = 1, body = b (float[0] h, float[3] r) => (float[0] h2, float[3] o)
          { h2 = Identity(h) o = Neg(r) }>(z, x) }""",
        {**X, "z": (F, (0,))},
        "ONNXWhile",
    ),
    # What bodies hold.
    "captured_values": Case(
        """g (float[T,3] x, float[3] z, float[3] w) => (float[3] y, float[T,3] s, float[T,3] u)
        <float[3] c = {1, 2, 3}> { v = Mul(w, c)
        y, s, u = Scan<num_scan_inputs = 1, body = b (float[3] h, float[3] r) => (float[3] h2, float[3] o, float[3] v2)
          <float[3] d = {0.5, 2, -1}> {
            e = Mul(h, d) f = Add(e, v) h2 = Add(f, r) o = Sub(w, h2) v2 = Identity(v) }>(z, x) }""",
        {**X, "z": (F, (3,)), "w": (F, (3,))},
    ),
    "if_in_the_body": Case(
        """g (float[T,3] x, float[3] z) => (float[3] y, float[T,3] s) <float zero = {0}> {
        y, s = Scan<num_scan_inputs = 1, body = b (float[3] h, float[3] r) => (float[3] h2, float[3] o) {
          t = ReduceSum<keepdims = 0>(r) c = Less(t, zero)
          h2 = If(c) <then_branch = p () => (float[3] a) { a = Add(h, r) },
                      else_branch = q () => (float[3] d) { d = Identity(h) }>
          o = Mul(h2, r) }>(z, x) }""",
        {**X, "z": (F, (3,))},
    ),
    "loop_in_the_body": Case(
        """g (float[T,3] x, float[3] z) => (float[3] y, float[T,2,3] s) <int64 two = {2}, bool yes = {1}> {
        y, s = Scan<num_scan_inputs = 1, body = b (float[3] h, float[3] r) => (float[3] h2, float[2,3] o) {
          h2, o = Loop(two, yes, h) <body = l (int64 i, bool go, float[3] k) => (bool go2, float[3] k2, float[3] e)
            { go2 = Identity(go) k2 = Sub(r, k) e = Mul(k2, r) }> }>(z, x) }""",
        {**X, "z": (F, (3,))},
    ),
    "scan_in_the_body": Case(
        """g (float[T,4,3] x, float[3] z, float[4] w) => (float[3] y, float[T,4,3] s) {
        y, s = Scan<num_scan_inputs = 1, body = b (float[3] h, float[4,3] r) => (float[3] h2, float[4,3] o) {
          h2, o = Scan<num_scan_inputs = 2, scan_input_directions = [1, 0],
            body = l (float[3] k, float[3] v, float e) => (float[3] k2, float[3] p)
            { m = Mul(v, e) k2 = Sub(m, k) p = Mul(k2, h) }>(h, r, w) }>(z, x) }""",
        {"x": (F, ("T", 4, 3)), "z": (F, (3,)), "w": (F, (4,))},
    ),
    "scan_in_a_loop": Case(
        """g (float[T,3] x, float[3] z) => (float[3] y, float[3,T,3] s) <int64 three = {3}, bool yes = {1}> {
        y, s = Loop(three, yes, z) <body = l (int64 i, bool go, float[3] k) => (bool go2, float[3] k2, float[T,3] e) {
          go2 = Identity(go)
          k2, e = Scan<num_scan_inputs = 1, body = b (float[3] h, float[3] r) => (float[3] h2, float[3] o)
            { h2 = Sub(r, h) o = Mul(h2, k) }>(k, x) }> }""",
        {**X, "z": (F, (3,))},
    ),
    "scans_of_growing_length": Case(
        """g (float[T,3] x, float[3] z) => (float[3] y) <int64 zero = {0}, int64 one = {1}, bool yes = {1}> {
        k = Shape<start = 0, end = 1>(x) t = Squeeze(k)
        y = Loop(t, yes, z) <body = l (int64 i, bool go, float[3] k1) => (bool go2, float[3] k2) {
          go2 = Identity(go) n = Add(i, one) m = Range(zero, n, one) p = Gather(x, m)
          k2 = Scan<num_scan_inputs = 1, body = b (float[3] h, float[3] r) => (float[3] h2) { h2 = Sub(r, h) }>(k1, p)
        }> }""",
        {**X, "z": (F, (3,))},
    ),
    "scan_in_an_if": Case(
        """g (float[T,3] x, float[3] z) => (float[3] y) <float zero = {0}> {
        t = ReduceSum<keepdims = 0>(x) c = Less(t, zero)
        y = If(c) <then_branch = p () => (float[3] a) {
            a = Scan<num_scan_inputs = 1, body = b (float[3] h, float[3] r) => (float[3] h2)
              { h2 = Add(h, r) }>(z, x) },
          else_branch = q () => (float[3] d) {
            d = Scan<num_scan_inputs = 1, body = b (float[3] i, float[3] r1) => (float[3] i2)
              { i2 = Sub(r1, i) }>(z, x) }> }""",
        {**X, "z": (F, (3,))},
    ),
    # Opset 8: a batch of its own.
    "opset_8": Case(
        """g (float[B,3] z, float[B,T,3] x, float[3] w) => (float[B,3] y, float[B,T,3] s) {
        y, s = Scan<num_scan_inputs = 1, directions = [1],
          body = b (float[3] h, float[3] r) => (float[3] h2, float[3] o) {
            p = Add(h, r) h2 = Sub(p, w) o = Softmax<axis = 0>(h2) }>("", z, x) }""",
        {"z": (F, (2, 3)), "x": (F, (2, "T", 3)), "w": (F, (3,))},
        opset=8,
    ),
}  # fmt: skip
