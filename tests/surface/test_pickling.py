"""What passes from one process to another: errors, diagnostics, models; and what says that it does not."""

from __future__ import annotations

import concurrent.futures
import copy
import importlib
import multiprocessing
import pickle  # noqa: TID251 - what is tested; only what the test itself pickled is read
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.paths import CHAR_RNN

import caffe2_backend
import caffe2_bridge
import caffe2_frontend
from caffe2_backend import Predictor, Session, Workspace, prepare, to_netdef
from caffe2_bridge import BridgeError, ConversionError, Diagnostic, Model, RunError, load, save
from caffe2_bridge.diagnostics import Location, Severity
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx

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


def test_a_conversion_error_of_another_process_has_its_diagnostics() -> None:
    with pytest.raises(ConversionError) as here:
        refused("Nope")
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, spawn) as pool, pytest.raises(ConversionError) as there:
        pool.submit(refused, "Nope").result(timeout=120)
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
def test_what_holds_sessions_says_what_to_send_instead(copied: Copy) -> None:
    net = NetDef(name="n", external_input=["x"], external_output=["y"])
    net.op.add(type="Relu", input=["x"], output=["y"])
    exported = to_onnx(net, inputs={"x": ("float32", [2])})
    for bound in (Workspace(), Predictor(Model.of(net)), Session(exported.SerializeToString()), prepare(exported)):
        with pytest.raises(TypeError, match=f"{type(bound).__name__} cannot be pickled or copied.* send the model"):
            copied(bound)
