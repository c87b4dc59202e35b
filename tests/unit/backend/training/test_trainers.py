"""Trainers of nets and of exported models, in the loop of a run."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.training import Program, classifier_data, linear_classifier, read_program

from caffe2_backend.admission import load_proto
from caffe2_backend.training.batches import RowBatches, StepBatches, make_batches
from caffe2_backend.training.checkpoint import read_checkpoint
from caffe2_backend.training.interrupt import interruptible
from caffe2_backend.training.loop import Schedule, train
from caffe2_backend.training.net_trainer import NetTrainer
from caffe2_backend.training.onnx_trainer import OnnxTrainer
from caffe2_backend.training.trained_net import with_values
from caffe2_backend.training.trainer import Trainer
from caffe2_bridge import load
from caffe2_bridge.diagnostics import NetFormatError, OptionError, RunError
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import save_onnx, to_onnx


@pytest.fixture(scope="module")
def mlp() -> Program:
    return read_program("mlp_adam")


def linear() -> Model:
    return Model.of(*linear_classifier())


def data(size: int = 4) -> RowBatches:
    batches = make_batches(classifier_data(12), ("data", "label"), size, {})
    assert isinstance(batches, RowBatches)
    return batches


def trainer_of(kind: str, model: Model, inputs: dict[str, Any], folder: Path) -> Trainer:
    if kind == "net":
        return NetTrainer(model)
    save_onnx(to_onnx(model, inputs=inputs), folder / "train.onnx")
    return OnnxTrainer(folder / "train.onnx")


@pytest.mark.parametrize("kind", ["net", "onnx"])
def test_real_caffe2s_losses(mlp: Program, kind: str, tmp_path: Path) -> None:
    trainer = trainer_of(kind, mlp.model, mlp.inputs, tmp_path)
    found = train(trainer, StepBatches(mlp.feeds), Schedule(len(mlp.feeds), 100, tmp_path))
    assert found.loss == "loss"
    np.testing.assert_allclose(found.losses, mlp.losses, rtol=1e-4)
    for name, value in mlp.final.items():
        np.testing.assert_allclose(found.state[name], value, rtol=5e-3, atol=5e-4, err_msg=name)


@pytest.mark.parametrize("kind", ["net", "onnx"])
def test_a_run_that_is_interrupted_and_continues(kind: str, tmp_path: Path) -> None:
    inputs = {"data": ("float32", ["N", 4]), "label": ("int32", ["N"])}
    whole = train(trainer_of(kind, linear(), inputs, tmp_path), data(), Schedule(9, 4, tmp_path))
    steps: list[int] = []
    trainer = trainer_of(kind, linear(), inputs, tmp_path)
    stopped = train(
        trainer, data(), Schedule(9, 4, tmp_path), observe=lambda step, _: steps.append(step),
        stopped=lambda: len(steps) == 5,
    )  # fmt: skip
    assert stopped.steps == 5
    start = read_checkpoint(tmp_path)
    assert start.steps == 5
    again = train(trainer_of(kind, linear(), inputs, tmp_path), data(), Schedule(9, 4, tmp_path), start=start)
    assert again.losses == whole.losses
    for name, value in whole.state.items():
        np.testing.assert_array_equal(again.state[name], value, err_msg=name)
    with pytest.raises(OptionError, match="9 steps already: choose at least 9"):
        train(trainer, data(), Schedule(8, 4, tmp_path), start=again)


@pytest.mark.parametrize("kind", ["net", "onnx"])
def test_a_run_that_ended_after_its_last_checkpoint(kind: str, tmp_path: Path) -> None:
    inputs = {"data": ("float32", ["N", 4]), "label": ("int32", ["N"])}
    whole, again = tmp_path / "whole", tmp_path / "again"
    whole.mkdir()
    again.mkdir()
    trainer = trainer_of(kind, linear(), inputs, tmp_path)
    final = train(trainer, data(), Schedule(6, 3, whole))
    written = trainer.write(whole, data().batch(0), open_dims=True)
    trainer = trainer_of(kind, linear(), inputs, tmp_path)
    assert train(trainer, data(), Schedule(6, 3, again), start=read_checkpoint(whole)).losses == final.losses
    assert trainer.write(again, data().batch(0), open_dims=True) == [again / path.name for path in written]
    for path in written:
        assert (again / path.name).read_bytes() == path.read_bytes(), path
    assert read_checkpoint(again).losses == final.losses


def test_checkpoints_are_written_on_the_way(tmp_path: Path) -> None:
    trainer, found = NetTrainer(linear()), []

    def look(step: int, _loss: float) -> None:
        found.append(read_checkpoint(tmp_path).steps if step > 2 else 0)

    train(trainer, data(), Schedule(6, 2, tmp_path), observe=look)
    assert found == [0, 0, 2, 2, 4, 4]
    assert read_checkpoint(tmp_path).steps == 6


def test_the_trained_nets(tmp_path: Path) -> None:
    trainer = NetTrainer(linear())
    final = train(trainer, data(), Schedule(5, 100, tmp_path))
    written = trainer.write(tmp_path, data().batch(0), open_dims=True)
    assert [path.name for path in written] == ["init_net.pb", "predict_net.pb", "model.onnx"]
    again = load(tmp_path)
    assert again.predict_net == linear().predict_net
    assert [op.output[0] for op in again.init_net.op] == [op.output[0] for op in linear().init_net.op]
    assert again.params["iter"] == 5
    np.testing.assert_array_equal(again.params["w"], final.state["w"])
    np.testing.assert_array_equal(again.params["rate"], linear().params["rate"])
    trainers: list[Trainer] = [NetTrainer(again), OnnxTrainer(written[2])]
    both = [train(trainer, data(), Schedule(3, 9, tmp_path)) for trainer in trainers]
    np.testing.assert_allclose(both[0].losses, both[1].losses, rtol=1e-6)
    assert both[0].losses[0] < final.losses[0]


def test_the_trained_onnx_model(tmp_path: Path) -> None:
    trainer = trainer_of("onnx", linear(), {"data": ("float32", ["N", 4]), "label": ("int32", ["N"])}, tmp_path)
    final = train(trainer, data(), Schedule(5, 100, tmp_path))
    (written,) = trainer.write(tmp_path, {}, open_dims=True)
    model = load_proto(written)
    defaults = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    np.testing.assert_array_equal(defaults["w"], final.state["w"])
    onnx.checker.check_model(model, full_check=True)


def test_random_fills_are_drawn_once() -> None:
    train_net, init = linear_classifier()
    init.op[0].CopyFrom(OperatorDef(type="XavierFill", output=["w"], arg=init.op[0].arg[:1]))
    model = Model.of(train_net, init)
    one, same, other = (NetTrainer(model, seed=seed).state()["w"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.any(one != other)


def test_values_of_an_init_net() -> None:
    init = NetDef(op=[OperatorDef(type="GivenTensorFill", output=["a"]), OperatorDef(type="Split", output=["b", "c"])])
    model = with_values(Model(NetDef(), Model.of(NetDef(), init).init), {"a": np.ones(2), "b": np.zeros(1)})
    assert [list(op.output) for op in model.init_net.op] == [["a"], ["b", "c"], ["b"]]


@pytest.mark.parametrize(("loss", "words"), [("nowhere", "not a blob"), ("accuracy", ""), ("prob", "")])
def test_a_loss_of_choice(tmp_path: Path, loss: str, words: str) -> None:
    if words:
        with pytest.raises(OptionError, match=words):
            NetTrainer(linear(), loss=loss)
        return
    found = train(NetTrainer(linear(), loss=loss), data(), Schedule(1, 9, tmp_path, loss))
    assert found.loss == loss


def test_without_a_fill_of_ones_the_only_scalar_is_the_loss(tmp_path: Path) -> None:
    train_net, init = linear_classifier()
    (start,) = [op for op in train_net.op if op.type == "ConstantFill"]
    start.type = "GivenTensorFill"
    del start.input[:], start.arg[:]
    start.arg.add(name="values", floats=[1.0])
    start.arg.add(name="shape").ints.extend([])
    train_net.external_output.append("loss")
    assert train(NetTrainer(Model.of(train_net, init)), data(), Schedule(1, 9, tmp_path)).loss == "loss"
    train_net.external_output.append("accuracy")
    with pytest.raises(OptionError, match="--loss NAME"):
        train(NetTrainer(Model.of(train_net, init)), data(), Schedule(1, 9, tmp_path))


def test_a_checkpoint_of_another_net(tmp_path: Path, mlp: Program) -> None:
    train(NetTrainer(linear()), data(), Schedule(1, 9, tmp_path))
    with pytest.raises(NetFormatError, match="the checkpoint does not have 'h1_w'"):
        train(NetTrainer(mlp.model), StepBatches(mlp.feeds), Schedule(3, 9, tmp_path), start=read_checkpoint(tmp_path))


def test_a_loss_of_choice_is_an_output_of_the_trained_model(tmp_path: Path) -> None:
    trainer = NetTrainer(linear(), loss="prob")
    train(trainer, data(), Schedule(2, 9, tmp_path, "prob"))
    path = trainer.write(tmp_path, data().batch(0), open_dims=True)[2]
    again = OnnxTrainer(path)
    assert (again.losses, again.candidates) == (("loss",), ("loss", "accuracy", "prob"))
    assert train(again, data(), Schedule(1, 9, tmp_path, "prob")).loss == "prob"


def test_what_does_not_train(tmp_path: Path) -> None:
    forward = NetDef(name="f", op=[OperatorDef(type="Relu", input=["x"], output=["y"])])
    with pytest.raises(OptionError, match="net 'f' does not train"):
        NetTrainer(Model.of(forward))
    save_onnx(to_onnx(forward, inputs={"x": ("float32", ["N"])}), tmp_path / "f.onnx")
    with pytest.raises(OptionError, match="the model does not train"):
        OnnxTrainer(tmp_path / "f.onnx")


def test_a_step_that_fails(tmp_path: Path) -> None:
    trainer = NetTrainer(linear())
    train(trainer, data(), Schedule(2, 1, tmp_path))
    wrong = {"data": np.zeros((3, 5), np.float32), "label": np.zeros(3, np.int32)}
    with pytest.raises(RunError):
        train(trainer, StepBatches([wrong]), Schedule(4, 1, tmp_path), start=read_checkpoint(tmp_path))
    assert read_checkpoint(tmp_path).steps == 2


def test_the_first_interrupt_is_a_request(request: pytest.FixtureRequest) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in processes of the background
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with interruptible() as stopped:
        assert not stopped()
        signal.raise_signal(signal.SIGINT)
        assert stopped()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
