"""Predictors of nets that begin with lookups: loops, and what onnxruntime computes of the whole net elsewhere.

Modules: lookup_program, parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from support.row_loops import choose_loops, without_loops

from caffe2_backend import Predictor, Workspace
from caffe2_backend.runtime import SessionOptions
from caffe2_backend.runtime.placement.automatic import PlacedProgram
from caffe2_backend.runtime.program.program import Program
from caffe2_backend.runtime.program.row_updates import kernels
from caffe2_backend.runtime.program.row_updates.lookup_program import LookupProgram
from caffe2_bridge.diagnostics import BridgeError, ConversionError, RunError
from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

Arrays = Mapping[str, np.ndarray[Any, Any]]
ROWS, WIDTH = 50, 12
LOOKUP = operator("SparseLengthsSum", ["table", "ids", "lengths"], ["pooled"])
PRODUCT = operator("FC", ["pooled", "w", "b"], ["y"])
ONNXRUNTIME: SessionOptions = SessionOptions(loops=False)


@pytest.fixture(autouse=True, params=["python", "numba"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_loops(request.param, monkeypatch)


@pytest.fixture
def onnxruntime_only(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return without_loops(monkeypatch)


def parameters(bits: int = 32) -> Arrays:
    random = np.random.default_rng(3)
    table = random.standard_normal((ROWS, WIDTH)).astype(np.float32)
    if bits < 32:
        workspace = Workspace()
        workspace.feed("table", table)
        workspace.run_operator_once(operator(f"FloatToFused{bits}BitRowwiseQuantized", ["table"], ["codes"]))
        table = np.asarray(workspace.fetch("codes"))
    return {"table": table, "w": random.standard_normal((4, WIDTH)).astype(np.float32), "b": np.ones(4, np.float32)}


def given(**others: Any) -> Arrays:
    weights = np.linspace(-1, 1, 6).astype(np.float32)
    return {"ids": np.array([3, 49, 3, 0, 17, 3]), "lengths": np.array([2, 0, 3, 1], np.int32), "weights": weights} | {
        name: np.asarray(value) for name, value in others.items()
    }


def model(
    *ops: OperatorDef,
    outputs: tuple[str, ...] = ("y",),
    init: tuple[OperatorDef, ...] = (),
    values: Arrays = MappingProxyType({}),
) -> Model:
    """Return a model of operators, with ``parameters`` or others, and operators of its init net."""
    known = {**parameters(), **values}
    read = dict.fromkeys(name for op in ops for name in op.input)
    fills = [Parameter(name, v.dtype, v.shape, lambda v=v: v.copy()) for name, v in known.items() if name in read]  # type: ignore[misc]
    for op in ops:
        read = {name: None for name in read if name not in op.output}
    net = NetDef(name="forward", op=ops, external_input=read, external_output=outputs)
    return Model.of(net, b"".join(map(bytes, fill_net(fills, init))))


def used(made: Model, inputs: Arrays) -> Arrays:
    return {name: inputs[name] for name in made.inputs}


def program_of(predictor: Predictor) -> Any:
    return predictor._runner._program  # type: ignore[union-attr]


def assert_same(made: Model, inputs: Arrays, *, looks_up: bool = True) -> LookupProgram:
    """Run a model with and without loops, which take the inputs if it ``looks_up``: the same outputs, in one order."""
    expected = Predictor(made, options=ONNXRUNTIME).run(inputs)
    predictor = Predictor(made)
    for _ in range(2):
        found = predictor.run(inputs)
        assert [*found] == [*expected]
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5, err_msg=name)
    program = program_of(predictor)
    assert isinstance(program, LookupProgram)
    assert (program._whole.conversions, program._rest.conversions) == ((0, 1) if looks_up else (1, 0))
    return program


@pytest.mark.parametrize("as_inputs", [(), ("table",), ("table", "w", "b")], ids=["parameters", "table", "inputs"])
@pytest.mark.parametrize("bits", [32, 8, 4])
@pytest.mark.parametrize("kind", ["Sum", "Mean", "WeightedSum"])
def test_results_are_those_of_onnxruntime(kind: str, bits: int, as_inputs: tuple[str, ...]) -> None:
    weights = ["weights"] if kind == "WeightedSum" else []
    name = f"SparseLengths{kind}" + (f"Fused{bits}BitRowwise" if bits < 32 else "")
    values = parameters(bits)
    made = model(operator(name, ["table", *weights, "ids", "lengths"], ["pooled"]), PRODUCT, values=values)
    made = made.with_inputs(as_inputs)
    program = assert_same(made, used(made, {**values, **given()}))
    assert "table" not in {*program._rest.interface.needs, *program._rest.interface.made}


def test_other_batches_convert_nothing() -> None:
    predictor = Predictor(model(LOOKUP, operator("LayerNorm", ["pooled"], ["y", "mean", "dev"], axis=1)))
    for size in (3, 5, 1):
        found = predictor.run({"ids": np.arange(2 * size), "lengths": np.full(size, 2, np.int32)})
        assert found["y"].shape == (size, WIDTH)
    assert program_of(predictor).conversions == 1


@pytest.mark.parametrize(
    ("ops", "outputs"),
    [
        ((LOOKUP, PRODUCT), ("pooled", "y")),
        ((LOOKUP, PRODUCT), ("ids", "y", "table", "w")),
        ((LOOKUP, operator("Relu", ["pooled"], ["pooled"])), ("pooled",)),
        ((LOOKUP,), ("pooled",)),
        ((LOOKUP,), ()),
        ((LOOKUP, PRODUCT, operator("Relu", ["pooled"], ["z"])), ()),
        ((LOOKUP, PRODUCT, operator("Relu", ["pooled"], ["z"])), ("pooled",)),
        ((LOOKUP, operator("Gather", ["table", "ids"], ["rows"]), PRODUCT), ("y", "rows")),
        ((operator("FC", ["x", "table"], ["y"]), LOOKUP), ("y", "pooled")),
    ],
    ids=["looked up", "passed on", "overwritten", "alone", "alone, undeclared", "undeclared", "unread", "gather", "fc"],
)  # fmt: skip
def test_outputs(ops: tuple[OperatorDef, ...], outputs: tuple[str, ...]) -> None:
    if ops[0].type == "FC":
        ops[0].input[:] = ["x", "table", "zeros"]
    made = model(*ops, outputs=outputs, values={"zeros": np.zeros(ROWS, np.float32)})
    inputs = used(made, {**given(), "x": np.ones((2, WIDTH), np.float32)})
    predictor, expected = Predictor(made), Predictor(made, options=ONNXRUNTIME).run(inputs)
    found = predictor.run(inputs)
    assert [*found] == [*expected]
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5, err_msg=name)
    assert program_of(predictor)._whole.conversions == 0


def test_a_table_that_onnxruntime_reads_too_is_in_memory_once() -> None:
    """It is an input of the other operators."""
    made = model(LOOKUP, operator("Gather", ["table", "ids"], ["rows"]), outputs=("pooled", "rows"))
    rest = assert_same(made, used(made, given()))._rest
    assert "table" in rest.interface.needs


@pytest.mark.parametrize(
    "wrong",
    [
        {"ids": np.array([3, -1, 3, 0, 17, 3])},
        {"ids": np.array([3, ROWS, 3, 0, 17, 3])},
        {"ids": np.array([3, 49, 3, 0, 17, 3], np.int16)},
        {"lengths": np.array([2, 0, 3, 2], np.int32)},
        {"lengths": np.array([2, 0, 3, 0], np.int32)},
        {"lengths": np.array([2, -1, 4, 1], np.int32)},
        {"lengths": np.array([2, 0, 3, 1], np.int64)},
        {"lengths": np.array([[2, 0], [3, 1]], np.int32)},
        {"lengths": np.array([2.0, 0, 3, 1])},
    ],
)  # fmt: skip
def test_operands_that_loops_do_not_take_are_those_of_onnxruntime(wrong: Arrays) -> None:
    made, inputs = model(LOOKUP, PRODUCT), used(model(LOOKUP, PRODUCT), given(**wrong))

    def outcome(options: SessionOptions) -> Any:
        predictor = Predictor(made, options=options)
        predictor.run(used(made, given()))
        try:
            found = predictor.run(inputs)["y"].round(4).tolist()
        except BridgeError as error:
            found = type(error), str(error).partition(":")[0]
        predictor.run(used(made, given()))
        return found

    assert outcome(SessionOptions()) == outcome(ONNXRUNTIME)


@pytest.mark.parametrize("as_input", [False, True])
def test_tables_of_half_precision(as_input: bool) -> None:
    """A parameter that no loop takes is not kept for loops."""
    table = parameters()["table"].astype(np.float16)
    made = model(LOOKUP, operator("HalfToFloat", ["pooled"], ["y"]), values={"table": table})
    made = made.with_inputs(["table"] if as_input else [])
    if as_input:
        assert_same(made, used(made, {**given(), "table": table}), looks_up=False)
    else:
        predictor = Predictor(made)
        assert predictor.run(used(made, given()))["y"].shape == (4, WIDTH)
        assert type(program_of(predictor)) is Program


def test_blobs_that_the_init_net_makes() -> None:
    """Ids that it computes are not read by loops, and what it fills is overwritten by them."""
    doubled = operator("Add", ["few", "few"], ["ids"])
    made = model(
        LOOKUP, PRODUCT, init=(operator("GivenTensorInt64Fill", [], ["few"], shape=[6], values=[1] * 6), doubled)
    )
    predictor = Predictor(made)
    expected = parameters()["table"][[2, 2]].sum(0)
    found = predictor.run({"lengths": given()["lengths"]})["y"]
    np.testing.assert_allclose(found[0], expected @ parameters()["w"].T + 1, rtol=1e-5)
    filled = model(LOOKUP, PRODUCT, values={"pooled": np.zeros((4, WIDTH), np.float32)})
    assert_same(filled, {name: given()[name] for name in ("ids", "lengths")})


def test_a_table_that_is_given_replaces_the_parameter() -> None:
    made, inputs = model(LOOKUP, PRODUCT), used(model(LOOKUP, PRODUCT), given())
    predictor, other = Predictor(made), np.zeros((ROWS, WIDTH), np.float32)
    first = predictor.run(inputs)["y"]
    assert predictor.run({**inputs, "table": other})["y"].tolist() == [[1] * 4] * 4
    np.testing.assert_array_equal(predictor.run(inputs)["y"], first)


def test_states_stay_in_the_session() -> None:
    made = model(LOOKUP, PRODUCT, operator("Add", ["y", "h"], ["next"]), outputs=("next",))
    step = {name: given()[name] for name in ("ids", "lengths")}
    steps = [{**step, "h": np.zeros((4, 4), np.float32)}, step, step, step]
    found, expected = (
        [results["next"] for results in Predictor(made, options=options).run_many(steps, {"h": "next"})]
        for options in (SessionOptions(), ONNXRUNTIME)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(found[3], 4 * found[0], rtol=1e-5)


def test_arrays_that_cannot_be_written_compile_nothing_new() -> None:
    made, inputs = model(LOOKUP, PRODUCT), used(model(LOOKUP, PRODUCT), given())
    predictor = Predictor(made)
    expected = predictor.run(inputs)["y"]
    kernel: Any = kernels.compiled(kernels.look_up)
    before = len(getattr(kernel, "signatures", ()))
    frozen = {name: np.frombuffer(b"x" + value.tobytes(), value.dtype, offset=1) for name, value in inputs.items()}
    strided = {name: np.repeat(value, 2)[::2] for name, value in inputs.items()}
    for others in (frozen, strided):
        np.testing.assert_array_equal(predictor.run(others)["y"], expected)
    assert len(getattr(kernel, "signatures", ())) == before
    assert program_of(predictor)._whole.conversions == 0


def test_threads_run_it_at_the_same_time() -> None:
    made = model(LOOKUP, PRODUCT)
    predictor, plain = Predictor(made), Predictor(made, options=ONNXRUNTIME)
    inputs = [{"ids": np.arange(i, i + 6), "lengths": given()["lengths"]} for i in range(16)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: predictor.run(each)["y"], inputs))
    np.testing.assert_allclose(found, [plain.run(each)["y"] for each in inputs], rtol=1e-5, atol=1e-5)


def test_what_cannot_be_converted_is_said_of_the_whole_net() -> None:
    made = model(LOOKUP, operator("Onehot", ["pooled"], ["y"]))
    messages = []
    for options in (SessionOptions(), ONNXRUNTIME):
        with pytest.raises(ConversionError, match=r"forward\[1\] Onehot") as caught:
            Predictor(made, options=options).run(used(made, given()))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_inputs_that_cannot_be_converted_leave_the_loops_to_others() -> None:
    made = model(LOOKUP, operator("Mul", ["pooled", "x"], ["y"]))
    predictor, inputs = Predictor(made), {name: given()[name] for name in ("ids", "lengths")}
    with pytest.raises((ConversionError, RunError)) as caught:
        predictor.run({**inputs, "x": np.ones((4, WIDTH), bool)})
    assert ConversionError in {type(caught.value), type(caught.value.__cause__)}
    found = predictor.run({**inputs, "x": np.ones((4, WIDTH), np.float32)})["y"]
    np.testing.assert_allclose(found[0], parameters()["table"][[3, 49]].sum(0), rtol=1e-5)
    assert not program_of(predictor)._is_whole


def test_who_runs_what(tmp_path: Path, onnxruntime_only: Callable[[], None]) -> None:
    made = model(LOOKUP, PRODUCT)
    assert isinstance(program_of(Predictor(made)), LookupProgram)
    others = [
        SessionOptions(providers=("CPUExecutionProvider",)),
        SessionOptions(optimized=str(tmp_path / "optimized.onnx")),
        ONNXRUNTIME,
    ]  # fmt: skip
    assert {type(program_of(Predictor(made, options=options))) for options in others} == {Program}
    on_gpu = Predictor(made, "cuda:0", options=SessionOptions(stand_in={"cuda:0": "cpu"}))
    assert isinstance(program_of(on_gpu), PlacedProgram)
    computed = model(operator("Copy", ["other"], ["ids"]), LOOKUP, PRODUCT)
    assert type(program_of(Predictor(computed))) is Program
    onnxruntime_only()
    assert type(program_of(Predictor(made))) is Program
