"""Modules as PyTorch knows them: parameters, gradients, copies, types, and what they take and return."""

from __future__ import annotations

import copy
import io
import pickle  # noqa: TID251 - what this module makes itself
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from conformance.__main__ import GOLDEN
from conformance.corpus import find_cases, read_case
from conformance.recording import operator
from support.training import read_program

from caffe2_bridge import ConversionError, Model, RunError, construct_init_net_from_params, load
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef

pytestmark = pytest.mark.torch

torch: Any = pytest.importorskip("torch")

MODELS: Final = GOLDEN / "models"
X: Final = np.array([[1.0, -2.0, 3.0]], np.float32)


def to_torch(*args: Any, **options: Any) -> Any:
    import caffe2_torch

    return caffe2_torch.to_torch(*args, **options)


def model(*ops: Any, outputs: tuple[str, ...] = ("y",), params: dict[str, Any] | None = None) -> Model:
    net = NetDef(name="n", op=ops, external_input=["x", *(params or {})], external_output=outputs)
    return Model.of(net, construct_init_net_from_params(params or {}))


def fully_connected(**names: str) -> Model:
    weight, bias = names.get("weight", "w"), names.get("bias", "b")
    params = {weight: np.eye(2, 3, dtype=np.float32), bias: np.array([0.5, -0.5], np.float32)}
    return model(operator("FC", ["x", weight, bias], ["y"]), params=params)


def test_a_module_takes_and_returns_blobs_by_name_or_in_order() -> None:
    module = to_torch(fully_connected())
    assert module.inputs == ("x",)
    assert module.outputs == ("y",)
    expected = [[1.5, -2.5]]
    assert module({"x": torch.from_numpy(X)})["y"].tolist() == expected
    assert module(torch.from_numpy(X)).tolist() == expected
    assert module(X).tolist() == expected
    two = to_torch(model(operator("Split", ["x"], ["a", "b", "c"]), outputs=("c", "a")))
    assert [value.tolist() for value in two(X)] == [[[3.0]], [[1.0]]]


@pytest.mark.parametrize(
    ("fed", "message"),
    [({}, "input 'x' is missing"), ({"X": X}, "no input 'X'.*'x'"), ({"x": X, "b ": X}, "no input 'b '.*'x'")],
)
def test_names_that_are_no_inputs_are_errors(fed: dict[str, Any], message: str) -> None:
    with pytest.raises(RunError, match=message):
        to_torch(fully_connected())(fed)


def test_parameters_have_the_names_of_blobs() -> None:
    module = to_torch(fully_connected(weight="fc/w", bias="fc.b"))
    assert {name for name, _ in module.named_parameters()} == {"fc/w", "fc_b"}
    assert module.names == {"fc/w": "fc/w", "fc.b": "fc_b"}
    taken = to_torch(fully_connected(weight="training", bias="forward"))
    assert set(taken.state_dict()) == {"training_", "forward_"}
    assert taken(X).tolist() == [[1.5, -2.5]]


def test_what_no_gradient_reaches_is_a_buffer() -> None:
    names = ("scale", "bias", "mean", "var")
    params = {name: np.ones(3, np.float32) for name in names} | {"i": np.array([0], np.int64)}
    ops = [operator("SpatialBN", ["x", *names], ["h"], is_test=1), operator("Gather", ["h", "i"], ["y"])]
    module = to_torch(model(*ops, params=params))
    assert {name for name, _ in module.named_parameters()} == {"scale", "bias"}
    assert {name for name, _ in module.named_buffers()} == {"mean", "var", "i"}


def test_what_the_net_writes_first_is_not_kept() -> None:
    """Exporters of PyTorch 1 fill outputs in the init net too, to declare them."""
    module = to_torch(model(operator("Relu", ["x"], ["y"]), params={"y": np.zeros((1, 3), np.float32)}))
    assert not module.state_dict()
    assert module(X).tolist() == [[1.0, 0.0, 3.0]]


def test_running_moments_are_kept_in_training_alone() -> None:
    names = ("scale", "bias", "mean", "var")
    params = {name: np.ones(3, np.float32) for name in names}
    bn = operator("SpatialBN", ["x", *names], ["y", "mean", "var", "m", "v"], is_test=0, momentum=0.5)
    module = to_torch(model(bn, params=params))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    module.eval()
    module(x)
    assert module.mean.tolist() == [1.0, 1.0, 1.0]
    module.train()
    module(x)
    assert module.mean.tolist() == [1.25, 1.75, 2.25]


@pytest.mark.parametrize("name", ["lstm", "gru", "control_if_else", "control_while"])
def test_modules_are_copied_pickled_and_saved(name: str, tmp_path: Path) -> None:
    case = read_case(next(ref for ref in find_cases(MODELS / name)))
    module = to_torch(load(MODELS / name), outputs=list(case.outputs))
    stream = io.BytesIO()
    torch.save(module, stream)
    stream.seek(0)
    others = [copy.deepcopy(module), pickle.loads(pickle.dumps(module)), torch.load(stream, weights_only=False)]  # noqa: S301 - our own
    again = to_torch(load(MODELS / name), outputs=list(case.outputs))
    torch.save(module.state_dict(), tmp_path / "state.pt")
    again.load_state_dict(torch.load(tmp_path / "state.pt"))
    expected = module(case.inputs)
    for other in (*others, again):
        for blob, value in other(case.inputs).items():
            assert torch.equal(value, expected[blob])


@pytest.mark.parametrize("name", ["lstm", "control_while_if"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_modules_change_their_element_type(name: str, dtype: str) -> None:
    """That of what the net fills too: of ``control_while_if`` that is all there is."""
    to = getattr(torch, dtype)
    case = read_case(next(ref for ref in find_cases(MODELS / name)))
    module = to_torch(load(MODELS / name), outputs=list(case.outputs)).to(to)
    inputs = {n: torch.from_numpy(v) for n, v in case.inputs.items()}
    results = module({n: v.to(to) if v.is_floating_point() else v for n, v in inputs.items()})
    assert {value.dtype for value in results.values()} == {to}
    for blob, value in results.items():
        assert np.allclose(value.detach().float().numpy(), case.outputs[blob], atol=1e-2)


@pytest.mark.parametrize("name", ["lstm_train", "gru_train", "attention_train"])
def test_gradients_of_the_loss_equal_those_of_caffe2(name: str) -> None:
    trained = load(MODELS / name)
    for ref in find_cases(MODELS / name):
        case = read_case(ref)
        module = to_torch(trained)
        assert "loss" in module.outputs
        assert not any(output.endswith("_grad") for output in module.outputs)
        inputs = {n: torch.from_numpy(v.copy()) for n, v in case.inputs.items() if n in module.inputs}
        for value in inputs.values():
            if value.is_floating_point():
                value.requires_grad_()
        loss = module(inputs)["loss"]
        assert np.allclose(loss.detach().numpy(), case.outputs["loss"], rtol=1e-4)
        loss.backward()
        held = {blob: getattr(module, attribute) for blob, attribute in module.names.items()} | inputs
        compared = 0
        for gradient, expected in case.outputs.items():
            blob = gradient.removesuffix("_grad")
            if gradient != blob and blob in held:
                assert np.allclose(held[blob].grad.numpy(), expected, rtol=1e-4, atol=1e-5), gradient
                compared += 1
        assert compared


# PyTorch's optimizers, with the arguments of those in the recorded programs.
OPTIMIZERS: Final[dict[str, Any]] = {
    "adagrad": lambda weights: torch.optim.Adagrad(weights, lr=0.1, eps=1e-4),
    "resnet_block": lambda weights: torch.optim.SGD(weights, lr=0.05, momentum=0.9, nesterov=True),
    "sparse_sgd": lambda weights: torch.optim.SGD(weights, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_programs_train_as_in_caffe2(name: str) -> None:
    program = read_program(GOLDEN / "training" / name)
    module = to_torch(program.model)
    optimizer = OPTIMIZERS[name](module.parameters())
    for feeds, recorded in zip(program.feeds, program.losses, strict=True):
        loss = module(feeds)[program.loss]
        assert np.allclose(loss.item(), recorded, rtol=1e-4, atol=1e-5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for blob, attribute in module.names.items():
        value = getattr(module, attribute).detach().numpy()
        assert np.allclose(value, program.final[blob], rtol=1e-3, atol=1e-4), blob


def test_all_operators_without_a_conversion_are_reported() -> None:
    ops = [operator("WallClockTime", [], ["time"]), operator("Relu", ["x"], ["r"]), operator("Python", ["r"], ["y"])]
    with pytest.raises(ConversionError) as caught:
        to_torch(model(*ops, outputs=("y", "time")))
    assert [finding.code for finding in caught.value.errors] == ["unknown-operator"] * 2
    assert "n[2] Python: error: operator 'Python' has no conversion to PyTorch" in str(caught.value)
    assert to_torch(model(*ops), outputs=["r"])(X).tolist() == [[1.0, 0.0, 3.0]]


def test_an_index_is_refused_for_its_texts() -> None:
    ops = [
        operator("StringIndexCreate", [], ["index"]),
        operator("IndexLoad", ["index", "keys"], ["index"]),
        operator("IndexGet", ["index", "x"], ["y"]),
    ]
    with pytest.raises(ConversionError) as caught:
        to_torch(model(*ops))
    found = [finding for finding in caught.value.errors if finding.code == "unknown-operator"]
    assert [finding.location.index for finding in found] == [0, 1, 2]
    assert all("mostly texts, which PyTorch has no tensors of" in finding.reason for finding in found)


def test_errors_name_the_operator() -> None:
    with pytest.raises(RunError, match=r"^n\[0\] FC: .* do not fit together"):
        to_torch(fully_connected())(X[:, :2])
    with pytest.raises(RunError, match="input 'x' is missing"):
        to_torch(fully_connected())({})
    with pytest.raises(RunError, match="has 1 inputs"):
        to_torch(fully_connected())(X, X)
    with pytest.raises(OptionError, match="no operator writes output 'z'"):
        to_torch(fully_connected(), outputs=["z"])
    for given in ({"outputs": "y"}, {"inputs": "w"}):
        with pytest.raises(OptionError, match="must be a sequence"):
            to_torch(fully_connected(), **given)  # type: ignore[arg-type] # what a caller may pass
    with pytest.raises(OptionError, match="'q' is neither an input of the net nor one of its parameters"):
        to_torch(fully_connected(), inputs=["w", "q"])


def test_parameters_can_be_inputs() -> None:
    module = to_torch(fully_connected(), inputs=["w"])
    assert module.inputs == ("x", "w")
    assert module(X, np.zeros((2, 3), np.float32)).tolist() == [[0.5, -0.5]]


def test_a_table_of_one_fused_row_is_read() -> None:
    """Its scale and bias are a view of memory that begins between two floats."""
    row = np.concatenate([np.array([1, 2, 3], np.uint8), np.array([2.0, 0.5], np.float32).view(np.uint8)])
    module = to_torch(model(operator("Fused8BitRowwiseQuantizedToFloat", ["x"], ["y"])))
    assert module(row[None]).tolist() == [[2.5, 4.5, 6.5]]


@pytest.mark.parametrize(
    ("op_type", "inputs", "reason"),
    [
        ("IndexGet", ["x", "x"], "an index numbers keys"),
        ("TensorVectorSize", ["x"], "it moves blobs through a queue, which is not a tensor"),
        ("MapToKeyValue", ["x"], "a map is not a tensor"),
    ],
)
def test_what_is_not_a_tensor_is_refused_with_its_reason(op_type: str, inputs: list[str], reason: str) -> None:
    from caffe2_torch import to_torch

    net = NetDef(external_input=["x"], external_output=["y"], op=[operator(op_type, inputs, ["y"])])
    with pytest.raises(ConversionError, match=f"operator '{op_type}' has no conversion to PyTorch: {reason}"):
        to_torch(net)
