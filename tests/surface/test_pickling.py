"""What passes from one process to another: errors, diagnostics, models; and what says that it does not."""

from __future__ import annotations

import concurrent.futures
import copy
import functools
import importlib
import multiprocessing
import os
import pickle  # noqa: TID251 - what is tested; only what the test itself pickled is read
import pickletools
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.paths import CHAR_RNN

import caffe2_backend
import caffe2_bridge
import caffe2_frontend
from caffe2_backend import (
    Predictor,
    Session,
    SessionOptions,
    ValidationOptions,
    Workspace,
    prepare,
    to_netdef,
    validate,
)
from caffe2_backend.options import ImportOptions
from caffe2_bridge import BridgeError, ConversionError, Diagnostic, Model, RunError, load, save
from caffe2_bridge.diagnostics import Location, Severity
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_fleet import Batch, ModelResult, ModelTask
from caffe2_frontend import ExportOptions, save_onnx, to_onnx

Copy = Callable[[Any], Any]

LOCATION = Location("predict", 12, "RecurrentNetwork").enter("step_net", 3, "FC", "gates")
FINDINGS = (
    Diagnostic("unsupported", "a reason", LOCATION, hint="type this"),
    Diagnostic("ignored-argument", "another", severity=Severity.NOTE),
)
# What the constructors take that do not take a message alone.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "ConversionError": (FINDINGS,),
    "NetFormatError": ("cut off", "net.pb"),
    "WireError": ("cut off", "net.pb"),
    "UnsupportedError": ("a reason", "a hint", "invalid-operands"),
    "UnknownKindError": ("stack", "blob"),
    "StuckError": (3, "a reason", None),
    "StorageError": ("a reason", "s3://bucket/a", 28),
    **dict.fromkeys(
        ("StorageNotFoundError", "StorageDeniedError", "StorageFolderError", "StorageChangedError",
         "NotListableError", "TransientError"), ("a reason", "s3://bucket/a"),
    ),
}  # fmt: skip


def copies() -> list[Any]:
    protocols = range(pickle.HIGHEST_PROTOCOL + 1)
    pickled = [
        pytest.param(lambda value, p=p: pickle.loads(pickle.dumps(value, p)), id=f"pickle-{p}")  # noqa: S301 - as above
        for p in protocols
    ]
    return [*pickled, pytest.param(copy.copy, id="copy"), pytest.param(copy.deepcopy, id="deepcopy")]


def error_types() -> list[type[BridgeError]]:
    for package in (caffe2_bridge, caffe2_frontend, caffe2_backend):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".caffe2_python." not in module.name and "__main__" not in module.name:
                importlib.import_module(module.name)

    def below(kind: type[BridgeError]) -> Iterator[type[BridgeError]]:
        yield kind
        for each in kind.__subclasses__():
            if each.__module__.startswith("caffe2_"):
                yield from below(each)

    return sorted(set(below(BridgeError)), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("copied", copies())
def test_every_error_is_copied_with_what_it_holds(copied: Copy) -> None:
    kinds = error_types()
    assert len(kinds) > 20  # the modules were found
    for kind in kinds:
        error = kind(*ARGUMENTS.get(kind.__name__, ("a reason",)))
        error.add_note("a note")
        again = copied(error)
        assert type(again) is kind
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error)), kind
        if isinstance(error, OSError):
            assert (again.errno, again.strerror, again.filename) == (error.errno, error.strerror, error.filename)


@pytest.mark.parametrize("copied", copies())
def test_attributes_of_an_error_that_are_set_later_are_copied(copied: Copy) -> None:
    error = RunError("it failed")
    error.operator = 7
    assert copied(error).operator == 7


@pytest.mark.parametrize("copied", copies())
def test_diagnostics_and_locations_are_copied(copied: Copy) -> None:
    assert copied(FINDINGS) == FINDINGS
    assert str(copied(LOCATION)) == "predict[12] RecurrentNetwork > step_net[3] FC (gates)"


def refused(kind: str) -> None:
    net = NetDef(name="n", external_input=["a"], external_output=["b"])
    net.op.add(type=kind, input=["a"], output=["b"])
    to_onnx(net, inputs={"a": ("float32", [2])})


def test_a_conversion_error_of_another_process_has_its_diagnostics(spawned: concurrent.futures.Executor) -> None:
    with pytest.raises(ConversionError) as here:
        refused("Nope")
    with pytest.raises(ConversionError) as there:
        spawned.submit(refused, "Nope").result(timeout=120)
    assert there.value.errors == here.value.errors
    assert str(there.value) == str(here.value)


def imported() -> Model:
    return to_netdef(to_onnx(load(CHAR_RNN)))


def loaded() -> Model:
    return load(CHAR_RNN)


def made() -> Model:
    """Return a model with a placeholder, an operator that is no fill, strings, and a random fill that has an index."""
    net = NetDef(name="n", external_input=["x", "w", "s"], external_output=["y"])
    net.op.add(type="Mul", input=["x", "w"], output=["y"])
    init = NetDef(name="init")
    for name in ("x", "w"):
        init.op.add(type="XavierFill" if name == "w" else "ConstantFill", output=[name]).arg.add(
            name="shape", ints=[2, 3] if name == "w" else [1, 1]
        )
    text = init.op.add(type="GivenTensorStringFill", output=["s"])
    text.arg.add(name="shape", ints=[1])
    text.arg.add(name="values", strings=[b"\xff"])
    init.op.add(type="Relu", input=["w"], output=["v"])
    return Model.of(net, init, "made")


@pytest.mark.parametrize("copied", copies())
@pytest.mark.parametrize("make", [loaded, imported, made])
def test_models_are_copied(copied: Copy, make: Callable[[], Model]) -> None:
    model = make()
    assert len(model.params) > 0  # a view of the parameters, which is kept once it was made
    again = copied(model)
    assert again.predict_net == model.predict_net
    assert (again.source, again.inputs, again.outputs) == (model.source, model.inputs, model.outputs)
    assert again.init.findings == model.init.findings
    assert again.init.placeholders.keys() == model.init.placeholders.keys()
    assert [op.proto for op in again.init.rest] == [op.proto for op in model.init.rest]
    assert again.params.keys() == model.params.keys()
    for name, array in model.params.items():
        np.testing.assert_array_equal(again.params[name], array, strict=True)
    assert again.init_net == model.init_net


@pytest.mark.parametrize("copied", copies())
def test_parameters_are_copied(copied: Copy) -> None:
    model = made()
    np.testing.assert_array_equal(copied(model.params)["w"], model.params["w"], strict=True)
    again = copied(model.init.parameters["w"])
    first = again.load()
    first[:] = 0  # each load gives an array of its own
    np.testing.assert_array_equal(again.load(), model.params["w"], strict=True)


def test_a_model_of_a_predictor_database_keeps_its_inputs(tmp_path: Any) -> None:
    save(made(), tmp_path / "m.minidb", "minidb")
    model = load(tmp_path / "m.minidb")
    again = pickle.loads(pickle.dumps(model))  # noqa: S301 - as above
    (tmp_path / "m.minidb").unlink()
    assert {n: p.shape for n, p in again.init.placeholders.items()} == {
        n: p.shape for n, p in model.init.placeholders.items()
    }
    assert again.inputs == model.inputs
    np.testing.assert_array_equal(again.params["w"], model.params["w"])


@pytest.mark.parametrize("copied", copies())
def test_what_belongs_to_a_process_says_what_to_send_instead(copied: Copy) -> None:
    for bound in (Workspace(), prepare(to_onnx(relu(), inputs={"x": ("float32", [2])}))):
        with pytest.raises(TypeError, match=f"{type(bound).__name__} cannot be pickled or copied.* send the model"):
            copied(bound)


def relu() -> NetDef:
    net = NetDef(name="n", external_input=["x"], external_output=["y"])
    net.op.add(type="Relu", input=["x"], output=["y"])
    return net


def options_and_results() -> list[Any]:
    inputs = {"x": np.array([-1, 1], np.float32)}
    found = [
        SessionOptions(threads=1, providers=("CPUExecutionProvider",)),
        ExportOptions(inputs={"x": ("float32", ["N"])}),
        ImportOptions("carry"),
        ValidationOptions(runtimes=("workspace",), described={"x": ("float32", [2])}),
        caffe2_frontend.check(relu(), inputs={"x": ("float32", [2])}),
        caffe2_frontend.describe_inputs(relu()),
        ModelResult("m", "agree", findings=[FINDINGS[0].to_dict()]),
        ModelTask("m", "a/m", inputs={"x": ("float32", (2,))}),
        Batch([ModelResult("m", "agree")], []),
        caffe2_bridge.as_device("cuda:1"),
        Predictor(Model.of(relu())).run(inputs),
    ]
    return [*found, validate(Model.of(relu()), inputs, ["workspace", "onnxruntime-cpu"])]


@pytest.mark.parametrize("copied", copies())
def test_options_and_results_are_copied(copied: Copy) -> None:
    for value in options_and_results():
        assert repr(copied(value)) == repr(value)
        if not isinstance(value, dict):  # of arrays
            assert copied(value) == value


SENT: dict[str, Callable[[Path], Predictor | Session]] = {
    "a path": lambda folder: Predictor(folder / "m"),
    "a model": lambda folder: Predictor(load(folder / "m")),
    "an ONNX file": lambda folder: Predictor(str(folder / "m.onnx")),
    "a session": lambda folder: Session((folder / "m.onnx").read_bytes()),
}


@pytest.fixture(params=SENT)
def sent(request: pytest.FixtureRequest, tmp_path: Path) -> Predictor | Session:
    save(Model.of(relu()), tmp_path / "m")
    save_onnx(to_onnx(relu(), inputs={"x": ("float32", ["N"])}), tmp_path / "m.onnx")
    return SENT[request.param](tmp_path)


@pytest.fixture(scope="module")
def spawned() -> Iterator[concurrent.futures.Executor]:
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        yield pool


BATCHES = [{"x": np.array([-1, i], np.float32)} for i in range(6)]


def score(model: Predictor | Session, batch: dict[str, Any]) -> tuple[int, list[float], int]:
    """Return the process, the results, and a name of what is open."""
    return os.getpid(), model.run(batch)["y"].tolist(), id(vars(model).get("_runner") or model._session)


def test_pools_of_spawned_processes(sent: Predictor | Session, spawned: concurrent.futures.Executor) -> None:
    found = list(spawned.map(functools.partial(score, sent), BATCHES))
    assert [rows for _, rows, _ in found] == [[0, i] for i in range(6)]
    assert os.getpid() not in {process for process, _, _ in found}
    assert len({(process, opened) for process, _, opened in found}) == len({process for process, _, _ in found})
    bound = list(spawned.map(sent.run, BATCHES))  # a method takes its object along
    assert [results["y"].tolist() for results in bound] == [[0, i] for i in range(6)]


def test_closures_by_cloudpickle() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    predictor = Predictor(Model.of(relu()))
    data = cloudpickle.dumps(lambda batch: predictor.run(batch)["y"].tolist())
    code = "import pickle, sys, numpy\nprint(pickle.load(sys.stdin.buffer)({'x': numpy.array([-1, 2], numpy.float32)}))"
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=False)  # noqa: S603 - this Python
    assert (done.stdout, done.stderr) == (b"[0.0, 2.0]\n", b"")


def test_batches_of_pickled_calls_as_joblib_sends_them(
    sent: Predictor | Session, spawned: concurrent.futures.Executor
) -> None:
    """Joblib pickles calls, several in one message, by cloudpickle, in processes that loky starts by spawn."""
    cloudpickle = pytest.importorskip("cloudpickle")
    calls = cloudpickle.dumps([(score, (sent, batch), {}) for batch in BATCHES[:3]])
    found = spawned.submit(call_all, calls).result(timeout=120)
    assert [rows for _, rows, _ in found] == [[0, i] for i in range(3)]
    assert len({opened for _, _, opened in found}) == 1


def call_all(calls: bytes) -> list[Any]:
    return [function(*args, **kwargs) for function, args, kwargs in pickle.loads(calls)]  # noqa: S301 - as above


def test_a_pickle_names_functions_of_this_project_and_of_numpy_alone(sent: Predictor | Session) -> None:
    named = {re.split(r"[. ]", name)[0] for name in globals_of(pickle.dumps(sent, 2))}
    assert named <= {"caffe2_backend", "caffe2_bridge", "numpy", "_codecs", "copy_reg", "__builtin__"}


def globals_of(data: bytes) -> set[str]:
    """Return what a pickle of protocol 2 imports."""
    return {str(text) for opcode, text, _ in pickletools.genops(data) if opcode.name == "GLOBAL"}
