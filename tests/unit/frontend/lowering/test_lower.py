"""Lowering: what is refused is reported once, and what depends on it not at all."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from conformance.recording import operator

from caffe2_bridge.diagnostics import Location, NetFormatError, Severity
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import check
from caffe2_frontend.interop.names import Names
from caffe2_frontend.lowering.lower import Lowering
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.lowering.reads import count_reads
from caffe2_frontend.lowering.scope import Constants, Scope


def codes(*ops: OperatorDef, inputs: tuple[str, ...] = ("x",), outputs: tuple[str, ...] = ("y",)) -> list[str]:
    net = NetDef(name="n", op=ops, external_input=inputs, external_output=outputs)
    return [f"{f.code} {f.location}" for f in check(net, inputs=dict.fromkeys(inputs, ("float32", ["N", 2]))).findings]


def test_what_depends_on_a_refused_operator_is_not_reported() -> None:
    chain = [operator("Relu", [f"y{k}"], [f"y{k + 1}"]) for k in range(5)]
    assert codes(operator("Foo", ["x"], ["y0"]), *chain, outputs=("y5",)) == ["unknown-operator n[0] Foo"]


def test_an_overwritten_blob_is_sound_again() -> None:
    ops = [operator("Foo", ["x"], ["a"]), operator("Relu", ["x"], ["a"]), operator("Relu", ["a"], ["y"])]
    assert codes(*ops) == ["unknown-operator n[0] Foo"]
    report = check(NetDef(op=ops, external_input=["x"]), inputs={"x": ("float32", ["N"])})
    assert report.converted == {"Relu": 2}


def test_the_first_reader_of_an_undefined_blob_is_reported() -> None:
    ops = [operator("Relu", ["p"], ["a"]), operator("Sum", ["p", "x"], ["b"]), operator("Sum", ["a", "b"], ["y"])]
    assert codes(*ops) == ["undefined-blob n[0] Relu"]


def test_a_blob_read_before_it_is_written() -> None:
    ops = [operator("Relu", ["a"], ["b"]), operator("Relu", ["x"], ["a"]), operator("Relu", ["a"], ["y"])]
    assert codes(*ops) == ["undefined-blob n[0] Relu"]


def test_an_output_listed_twice() -> None:
    ops = [operator("Split", ["x"], ["a", "a", "b"]), operator("Sum", ["a", "b"], ["y"])]
    assert codes(*ops) == ["duplicate-output n[0] Split"]


def test_more_outputs_than_the_operator_has() -> None:
    assert codes(operator("Relu", ["x"], ["y", "more"])) == ["extra-output n[0] Relu"]


def test_indices_are_those_of_the_net_that_was_given() -> None:
    """Renaming puts a copy before the ScatterAssign, since the blob is read as it was."""
    ops = [
        operator("Relu", ["x"], ["a"]),
        operator("Relu", ["a"], ["kept"]),
        operator("ScatterAssign", ["a", "kept", "x"], ["a"]),
        operator("Foo", ["a"], ["y"]),
        operator("Softmax", ["x"], ["z"], axis="one"),
    ]
    assert codes(*ops, outputs=("y", "kept", "z")) == [
        "invalid-operands n[2] ScatterAssign", "unknown-operator n[3] Foo", "invalid-argument n[4] Softmax"
    ]  # fmt: skip


def test_a_loop_that_changes_what_it_does_not_carry() -> None:
    """Real Caffe2 adds to the outer ``a`` in every iteration."""
    body = NetDef(external_input=["i", "c", "s", "a"], external_output=["c2", "s2"])
    body.op.extend([
        operator("Copy", ["c"], ["c2"]), operator("Add", ["a", "s"], ["a"]), operator("Copy", ["a"], ["s2"]),
    ])  # fmt: skip
    op = operator(
        "ONNXWhile", ["m", "go", "x"], ["y"], has_trip_count=1, num_loop_carried_deps=1, disable_scopes=1, body=body
    )
    net = NetDef(name="n", op=[op], external_input=["m", "go", "x", "a"], external_output=["y", "a"])
    inputs = {"m": ("int64", []), "go": ("bool", []), "x": ("float32", [1]), "a": ("float32", [1])}
    reasons = [finding.reason for finding in check(net, inputs=inputs).findings]
    assert reasons == ["its body changes blob 'a' of the net around it, which the loop does not carry"]


@pytest.mark.parametrize(("scopes", "refused"), [({}, False), ({"save_scopes": 1}, True)])
def test_scopes_that_are_saved_and_disabled(scopes: dict[str, int], *, refused: bool) -> None:
    body = NetDef(external_input=["i", "c", "s"], external_output=["c2", "s2"])
    body.op.extend([operator("Copy", ["c"], ["c2"]), operator("Relu", ["s"], ["s2"])])
    op = operator(
        "ONNXWhile", ["m", "go", "x"], ["y"], has_trip_count=1, num_loop_carried_deps=1, disable_scopes=1, body=body,
        **scopes,
    )  # fmt: skip
    net = NetDef(name="n", op=[op], external_input=["m", "go", "x"], external_output=["y"])
    findings = check(net, inputs={"m": ("int64", []), "go": ("bool", []), "x": ("float32", [1])}).findings
    assert [finding.code for finding in findings] == (["invalid-argument"] if refused else [])


def test_notes_stop_nothing() -> None:
    findings: list[Severity] = []

    def noted(op: Op) -> Value:
        op.note("a choice")
        return op.emit("Relu", op.input(0))

    lowering, scope = lowered({"Noted": noted}, operator("Noted", ["x"], ["y"]))
    findings += [finding.severity for finding in lowering.findings]
    assert findings == [Severity.NOTE]
    assert lowering.errors == 0
    assert scope.find("y") is not None


def lowered(converters: dict[str, object], *ops: OperatorDef) -> tuple[Lowering, Scope]:
    names = Names()
    scope = Scope(names, Constants(names), 20, outermost=True)
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(["N", 2]))
    scope.blobs["x"] = x
    lowering = Lowering(converters)  # type: ignore[arg-type] # what the test gives
    lowering.net(NetDef(op=ops), scope, Location("n"))
    return lowering, scope


def test_an_argument_that_nobody_reads_is_a_finding() -> None:
    def plain(op: Op) -> Value:
        return op.emit("Relu", op.input(0))

    lowering, _ = lowered({"Plain": plain}, operator("Plain", ["x"], ["y"], strange=1, order="NCHW"))
    assert [finding.reason for finding in lowering.findings] == [
        "the conversion of Plain does not support argument 'strange'"
    ]
    lowering, _ = lowered({"Plain": plain}, operator("Plain", ["x"], ["y"], order="NCHW", ws_nbytes_limit=1))
    assert lowering.findings == []


def test_a_fault_of_our_own_surfaces() -> None:
    def broken(_: Op) -> Value:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lowered({"Broken": broken}, operator("Broken", ["x"], ["y"]))


def test_a_fault_of_our_own_is_reported_at_its_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Op) -> Value:
        raise ZeroDivisionError("none")

    def plain(op: Op) -> Value:
        return op.emit("Relu", op.input(0))

    monkeypatch.delenv("CAFFE2_BRIDGE_VERIFY")
    ops = [operator("Broken", ["x"], ["y"]), operator("Plain", ["y"], ["z"]), operator("Plain", ["x"], ["w"])]
    lowering, _ = lowered({"Broken": broken, "Plain": plain}, *ops)
    (found,) = lowering.findings
    assert found.code == "internal-error"
    assert "ZeroDivisionError: none" in found.reason
    assert "report" in found.hint
    assert found.location.index == 0
    assert lowering.covered == {"Plain": 1}


def test_operands_that_do_not_go_together_are_a_finding() -> None:
    def wrong(op: Op) -> Value:
        return op.emit("MatMul", op.input(0), op.const([[1.0], [2.0], [3.0]], op.input(0)))

    lowering, _ = lowered({"Wrong": wrong}, operator("Wrong", ["x"], ["y"]))
    assert [finding.code for finding in lowering.findings] == ["invalid-operands"]


def test_nodes_say_where_they_come_from() -> None:
    def plain(op: Op) -> Value:
        return op.emit("Relu", op.input(0))

    _, scope = lowered({"Plain": plain}, operator("Plain", ["x"], ["a"]), operator("Plain", ["a"], ["b"]))
    assert [dict(node.metadata_props) for node in scope.nodes] == [
        {"caffe2.op": "Plain", "caffe2.location": f"n[{k}] Plain"} for k in range(2)
    ]


def test_arguments_that_the_schema_requires() -> None:
    """Caffe2's last version refuses them where earlier ones trained."""
    names = ["X", "s", "b", "m", "v"]
    norm = operator("SpatialBN", names, ["Y", "m", "v", "sm", "sv"])
    findings = check(NetDef(op=[norm], external_input=names)).findings
    (found,) = (finding for finding in findings if finding.code == "invalid-argument")
    assert "argument 'is_test' is missing" in found.reason
    assert found.hint.startswith("set is_test=1 to export")


def test_reads_are_counted_in_bodies_and_arguments_too() -> None:
    inner = NetDef(op=[operator("Sum", ["a", "b"], ["c"])])
    ops = [
        operator("If", ["a"], ["c"], then_net=inner),
        operator("RecurrentNetwork", [], [], blobs=["b", "z"], alias_dst=["c"]),
    ]
    assert count_reads(NetDef(op=ops)) == {"a": 2, "b": 2, "z": 1}


def stored(*ops: OperatorDef, opset: str = "") -> NetDef:
    """Return a net as an import writes it, with an input of an element type alone."""
    net = NetDef(name="n", op=ops, external_input=["x"], external_output=["y"])
    info = onnx.ValueInfoProto(name="x")
    info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    net.arg.add(name="onnx_types", strings=[info.SerializeToString()])
    if opset:
        net.arg.add(name="onnx_opsets", strings=[opset.encode()])
    return net


@pytest.mark.parametrize("op_type", ["Softmax", "Transpose", "Flatten"])
def test_a_stored_input_of_unknown_rank(op_type: str) -> None:
    (found,) = check(stored(operator(op_type, ["x"], ["y"]))).findings
    assert found.code == "needs-shape"


@pytest.mark.parametrize(
    "opset", ["ai.onnx:999", "ai.onnx:0", "ai.onnx:²", f"custom:{1 << 40}", f"ai.onnx:{'9' * 5000}"]
)
def test_stored_opsets_that_do_not_exist(opset: str) -> None:
    carried = OperatorDef(type="Relu", domain="ai.onnx", input=["x"], output=["y"])
    check(stored(carried, opset="ai.onnx:20"))
    with pytest.raises(NetFormatError, match="onnx_opsets"):
        check(stored(carried, opset=opset))


@pytest.mark.parametrize(
    ("inputs", "outputs", "code"),
    [
        ([], ["y"], "operand-count"),
        (["x", ""], ["y"], "missing-input"),
        (["x", "x", "x", "x"], ["y"], "operand-count"),
        (["x", "x"], ["y", "a", "b", "c"], "operand-count"),
    ],
)
def test_carried_operators_without_their_operands(inputs: list[str], outputs: list[str], code: str) -> None:
    carried = OperatorDef(type="LayerNormalization", domain="ai.onnx", input=inputs, output=outputs)
    (found,) = check(stored(carried, opset="ai.onnx:20")).findings
    assert (found.code, str(found.location)) == (code, "n[0] LayerNormalization")
    carried.input[:], carried.output[:] = ["x", "x", ""], ["y", "", "z"]
    assert check(stored(carried, opset="ai.onnx:20")).findings == ()


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (
            onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor(elem_type=127)),
            r"not supported \(127 is not a valid DataType\)",
        ),
        (onnx.TypeProto(sequence_type=onnx.TypeProto.Sequence()), "not supported .*must have elem_type set"),
        (onnx.TypeProto(map_type=onnx.TypeProto.Map(key_type=7)), "not supported$"),
    ],
)
def test_stored_types_that_do_not_exist(kind: onnx.TypeProto, reason: str) -> None:
    net = stored(operator("Relu", ["x"], ["y"]))
    net.arg[0].strings[0] = onnx.ValueInfoProto(name="x", type=kind).SerializeToString()
    with pytest.raises(NetFormatError, match=f"'onnx_types' holds a type or tensor that is {reason}"):
        check(net)
    carried = OperatorDef(type="Relu", domain="ai.onnx", input=["x"], output=["y"])
    carried.arg.add(name=":types", strings=[kind.SerializeToString()])
    (found,) = check(stored(carried, opset="ai.onnx:20")).findings
    assert (found.code, str(found.location)) == ("invalid-argument", "n[0] Relu")


@pytest.mark.parametrize(
    "tensor",
    [
        onnx.TensorProto(data_type=127, dims=[1]),
        onnx.TensorProto(data_type=1, dims=[-1]),
        onnx.TensorProto(data_type=1, dims=[3], raw_data=b"123"),
        onnx.TensorProto(data_type=1, dims=[1 << 62] * 4),
        onnx.TensorProto(data_type=6, dims=[2], int32_data=[1]),
    ],
)
def test_stored_tensors_without_their_values(tensor: onnx.TensorProto) -> None:
    carried = OperatorDef(type="ConstantOfShape", domain="ai.onnx", input=["x"], output=["y"])
    carried.arg.add(name="value:TENSOR", s=onnx.TensorProto(data_type=6, dims=[1], int32_data=[7]).SerializeToString())
    net = stored(carried, opset="ai.onnx:20")
    assert check(net).findings == ()
    net.op[0].arg[0].s = tensor.SerializeToString()
    (found,) = check(net).findings
    assert (found.code, str(found.location)) == ("invalid-argument", "n[0] ConstantOfShape")


@pytest.mark.parametrize("is_gradient", [True, False])
def test_a_do_without_operands(is_gradient: bool) -> None:
    op = operator("Do", [], ["y"], net=NetDef(name="b", op=[operator("Relu", ["x"], ["z"])]))
    op.is_gradient_op = is_gradient
    assert codes(op) == ["missing-input n[0] Do"]
    assert "invalid-argument n[0] Do" in codes(operator("Do", ["x"], ["x"], reuse_workspace=7), outputs=("x",))


@pytest.mark.parametrize("sizes", [[1, 1 << 63], 1 << 80, [-(1 << 63) - 1]])
def test_integers_beyond_64_bits(sizes: object) -> None:
    def pool(op: Op) -> Value:
        return op.emit("MaxPool", op.input(0), kernel_shape=sizes)

    lowering, _ = lowered({"Pool": pool}, operator("Pool", ["x"], ["y"]))
    (found,) = lowering.findings
    assert found.code == "invalid-argument"
    assert "must fit into 64 bits" in found.reason


@pytest.mark.parametrize("index", [-1, 0, 1])
def test_operands_that_are_not_there(index: int) -> None:
    lowering, _ = lowered({"Last": lambda op: op.emit("Relu", op.input(index))}, operator("Last", [], ["y"]))
    assert [found.code for found in lowering.findings] == ["missing-input"]


def test_too_many_dims() -> None:
    op = operator("Reshape", ["x", "s"], ["y", "old"])
    net = NetDef(name="n", op=[op], external_input=["x", "s"], external_output=["y"])
    (found,) = check(net, inputs={"x": ("float32", [2]), "s": ("int64", [1000])}).findings
    assert found.reason == "an operand lists 1,000 dims; at most 32 are supported"
    lowering, _ = lowered(
        {"Rank": lambda op: op.emit("Identity", op.input(0), shape=[1] * 33)}, operator("Rank", ["x"], ["y"])
    )
    assert [found.reason for found in lowering.findings] == ["a result has 33 dims; at most 32 are supported"]
