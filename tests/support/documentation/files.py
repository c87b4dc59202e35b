"""The files that pages of the documentation name."""

from __future__ import annotations

import pickle  # noqa: TID251 - it is written, and not read
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_bridge import Model, load, save
from caffe2_bridge.files.blobs.record_writer import Record, tensor_records, text_record
from caffe2_bridge.files.predictor_db import META_NET_DEF
from caffe2_bridge.files.saver import save_records
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_compat.predictor_exporter import PredictorExportMeta, get_meta_net_def, save_to_db
from caffe2_compat.workspace import RunNetOnce, WorkspaceGuard
from caffe2_frontend import save_onnx, to_onnx
from support.paths import CHAR_RNN, GOLDEN, MODELS
from support.training import Program, read_program


def put_files(page: str, folder: Path) -> None:
    """Write the files that a page names into a folder: the model char_rnn, and those of this page alone."""
    shutil.copytree(CHAR_RNN, folder / "models" / "char_rnn")
    if page in _FILES:
        _FILES[page](folder)


def put_training_program(program: Program, folder: Path) -> None:
    """Write a program as the model ``mlp`` and its data as ``data.npz``, whose rows are those of the steps."""
    save(program.model, folder / "mlp")
    data: dict[str, Any] = {name: np.concatenate([feed[name] for feed in program.feeds]) for name in program.feeds[0]}
    np.savez(folder / "data.npz", **data)


def _running(folder: Path) -> None:
    with np.load(CHAR_RNN / "cases.npz") as cases:
        inputs: dict[str, Any] = {k.removeprefix("0/in/"): v for k, v in cases.items() if k.startswith("0/in/")}
    np.savez(folder / "in.npz", **inputs)
    net = NetDef(name="layers", external_input=["data", "w", "b"], external_output=["out"])
    net.op.extend([operator("FC", ["data", "w", "b"], ["hidden"]), operator("Relu", ["hidden"], ["out"])])
    fills = [("w", [3, 4]), ("b", [3])]
    init = NetDef(op=[operator("ConstantFill", [], [name], shape=shape, value=0.5) for name, shape in fills])
    save(Model.of(net, init), folder / "layers")


def _files(folder: Path) -> None:
    """Write a predictor database, and one with the predictors ``wide`` and ``narrow``, both the same."""
    model = load(CHAR_RNN)
    shapes = {"input_blob": (1, 1, 94), "seq_lengths": (1,), "hidden_init": (1, 1, 192), "cell_init": (1, 1, 192)}
    shapes["softmax"] = (1, 1, 94)

    def described(name: str) -> PredictorExportMeta:
        return PredictorExportMeta(
            model.predict_net, list(model.params), list(model.inputs), ["softmax"], shapes=shapes, name=name
        )

    with WorkspaceGuard("documentation"):
        RunNetOnce(model.init_net)
        save_to_db("minidb", folder / "model.minidb", described(""))
        both = get_meta_net_def(described("wide"))
        both.MergeFrom(get_meta_net_def(described("narrow")))
    both.modelInfo.predictorType = "MULTI_PREDICTOR"
    records: list[Record] = [text_record(META_NET_DEF, both.SerializeToString())]
    for name, values in model.params.items():
        records += tensor_records(Parameter(name, values.dtype, values.shape, partial(np.asarray, values)))
    save_records(records, folder / "both.minidb", "minidb")


def _exporting(folder: Path) -> None:
    how = {"Y_scale": 0.1, "Y_zero_point": 128}
    ops = [
        operator("Int8Quantize", ["x"], ["q"], **how),
        operator("Int8Sum", ["q", "q"], ["s"], Y_scale=0.2, Y_zero_point=128),
        operator("Int8Dequantize", ["s"], ["y"]),
    ]
    save(Model.of(NetDef(name="quantized", op=ops, external_input=["x"], external_output=["y"])), folder / "quantized")


def _recurrent(folder: Path) -> None:
    shutil.copytree(MODELS / "lstm_train", folder / "lstm")
    shutil.copytree(MODELS / "lstm_param_states", folder / "models" / "lstm")
    shutil.copytree(GOLDEN / "recorded" / "models" / "unrolled_lstm", folder / "unrolled")


def _database(folder: Path) -> None:
    save(load(CHAR_RNN), folder / "model.minidb", format="minidb")


def _checkpoint(folder: Path) -> None:
    """Write the weights as Detectron did, and the net apart from them."""
    blobs = {name: np.asarray(values) for name, values in load(CHAR_RNN).params.items()}
    (folder / "model.pkl").write_bytes(pickle.dumps({"blobs": blobs}, protocol=2))
    shutil.copy(CHAR_RNN / "predict_net.pb", folder / "net.pb")


def _onnx_model(folder: Path) -> None:
    save_onnx(to_onnx(load(CHAR_RNN)), folder / "model.onnx")


def _many(folder: Path) -> None:
    """Write two models, and what is none."""
    for name in ("speech/char_rnn", "speech/copy"):
        (folder / "zoo" / name).mkdir(parents=True)
        for file in ("predict_net.pb", "init_net.pb"):
            shutil.copy(CHAR_RNN / file, folder / "zoo" / name)
    (folder / "zoo" / "notes.txt").write_text("trained on Sunday", encoding="utf-8")


def _training(folder: Path) -> None:
    put_training_program(read_program("mlp_adam"), folder)


def _validation(folder: Path) -> None:
    save_onnx(to_onnx(load(CHAR_RNN)), folder / "exported.onnx")
    shutil.copytree(CHAR_RNN, folder / "zoo" / "letters")
    (folder / "models.toml").write_text('[[model]]\npath = "zoo/letters"\noutputs = ["softmax"]\n', encoding="utf-8")
    (folder / "downloads").mkdir()
    shutil.copy(CHAR_RNN / "predict_net.pb", folder / "downloads")
    _damaged_lstm(folder)
    _wrong_gradient(folder)


def _fleets(folder: Path) -> None:
    """Write the character model to ``zoo``, and texts of several lengths to ``texts``, where PyArrow is installed."""
    for name in ("predict_net.pb", "init_net.pb"):
        (folder / "zoo" / "letters").mkdir(parents=True, exist_ok=True)
        shutil.copy(CHAR_RNN / name, folder / "zoo" / "letters")
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("distributed")
    (folder / "texts").mkdir()
    random = np.random.default_rng(2018)
    for part in range(2):
        texts = [random.integers(0, 94, random.integers(2, 12)).tolist() for _ in range(10)]
        table = arrow.table({"id": range(10 * part, 10 * part + 10), "letters": texts})
        parquet.write_table(table, folder / "texts" / f"{part}.parquet")


def _damaged_lstm(folder: Path) -> None:
    """Write the LSTM as ``good``, with an element of a weight changed as ``damaged``, and the export of that."""
    shutil.copytree(MODELS / "lstm", folder / "good")
    model = load(MODELS / "lstm")
    init = NetDef()
    init.CopyFrom(model.init_net)
    fill = next(op for op in init.op if op.output[0].endswith("gates_t_w"))
    values = next(arg for arg in fill.arg if arg.name == "values")
    columns = int(np.sqrt(len(values.floats) / 4))
    values.floats[12 * columns] += 0.5
    damaged = Model.of(model.predict_net, init)
    save(damaged, folder / "damaged")
    save_onnx(to_onnx(damaged), folder / "lstm.onnx")


def _wrong_gradient(folder: Path) -> None:
    """Write a training net as ``mlp``, data of its steps, and the export with the gradient of another operator."""
    program = read_program("mlp_adam")
    save(program.model, folder / "mlp")
    feeds: dict[str, Any] = {f"{i}/{name}": x for i, feed in enumerate(program.feeds) for name, x in feed.items()}
    np.savez(folder / "feeds.npz", **feeds)
    net = NetDef()
    net.CopyFrom(program.train)
    next(op for op in net.op if op.type == "SigmoidGradient").type = "TanhGradient"
    save_onnx(to_onnx(Model.of(net, program.init), inputs=program.inputs), folder / "damaged.onnx")


def _own_operators(folder: Path) -> None:
    net = NetDef(name="n", op=[operator("Shift1", ["x"], ["y"])], external_input=["x"], external_output=["y"])
    save(Model(net), folder / "net")
    (folder / "my_operators.py").write_text(
        "from caffe2_frontend import register_converter\n\n\n"
        '@register_converter("Shift1")\ndef shift(op):\n'
        '    return op.emit("Add", op.input(0), op.const(1, op.input(0)))\n'
    )


_FILES: Final[Mapping[str, Callable[[Path], None]]] = {
    "exporting.md": _exporting,
    "files.md": _files,
    "fleets.md": _fleets,
    "have-checkpoint.md": _checkpoint,
    "have-database.md": _database,
    "have-many.md": _many,
    "have-onnx.md": _onnx_model,
    "have-program.md": _training,
    "own-operators.md": _own_operators,
    "recurrent.md": _recurrent,
    "running.md": _running,
    "training.md": _training,
    "validation.md": _validation,
}
