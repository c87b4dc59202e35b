"""Well-formed inputs, from which the malformed ones are made: golden cases, their exports, ONNX's own node tests."""

from __future__ import annotations

import gzip
import io
import pickle  # noqa: TID251 - it writes what is read here
import random
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Iterator, KeysView, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from conformance.corpus import Array, Case, find_cases, read_case
from google.protobuf import text_format
from support.paths import CHAR_RNN, GOLDEN, MODELS

from caffe2_backend import to_netdef
from caffe2_bridge import BridgeError, Model, load, save
from caffe2_bridge.diagnostics.log import muted
from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import ExecutionStep, NetDef, OperatorDef, PlanDef
from caffe2_frontend import to_onnx
from fuzz.robust.inputs import CHECKPOINT, MAIN, Input, read_input

_LARGEST: Final = 40_000  # bytes of a seed: mutations of larger ones rarely hit anything but weights
_FLOATS: Final = np.dtype(np.float32)
_GROUPS: Final = 250
_EXPORTS: Final = 120
_NODE_TESTS: Final = 400
_CARRIED: Final = 40
_DATABASES: Final = 12
_CHECKPOINTS: Final = 60


def write_seeds(folder: Path, seed: int) -> Mapping[str, int]:
    """Write seeds of every kind to ``folder``; return how many there are of each."""
    draw = random.Random(seed)  # noqa: S311 - reproducible
    counts = dict.fromkeys(MAIN, 0)
    with muted():
        for found in _seeds(draw):
            if found.size <= _LARGEST:
                found.write(folder / found.kind / f"{counts[found.kind]:04d}")
                counts[found.kind] += 1
    return counts


class Seeds:
    """The seeds in a folder, read when they are first drawn."""

    def __init__(self, folder: Path) -> None:
        self._folders = {kind: sorted((folder / kind).iterdir()) for kind in MAIN if (folder / kind).is_dir()}
        self._read: dict[Path, Input] = {}

    @property
    def kinds(self) -> KeysView[str]:
        """The kinds that there are seeds of: not all where a package of a format is not installed."""
        return self._folders.keys()

    def pick(self, kind: str, draw: random.Random) -> Input:
        """A seed of a kind."""
        folder = draw.choice(self._folders[kind])
        if folder not in self._read:
            self._read[folder] = read_input(kind, folder)
        return self._read[folder]


def _seeds(draw: random.Random) -> Iterator[Input]:
    models = [*_golden_models(), *_operator_models(draw)]
    nets = [_input_of(model, text=False) for model in models]
    yield from (found for found in nets if found is not None)
    for model in draw.sample(models, 80):
        found = _input_of(model, text=True)
        if found is not None:
            yield found
    yield from _plans(models, draw)
    for name, kind in (("minidb", "minidb"), ("lmdb", "lmdb"), ("leveldb", "leveldb")):
        for model in [load(CHAR_RNN), *draw.sample(models, _DATABASES)]:
            yield from _saved(model, name, kind)
    yield from _exports(draw.sample(models, _EXPORTS))
    nodes = list(_node_tests(draw))
    yield from nodes
    yield from _carried(draw.sample(nodes, _CARRIED))
    yield from _arrays(draw)
    yield from _checkpoints(draw.sample(models, _CHECKPOINTS), draw)


def _input_of(model: Model, *, text: bool) -> Input | None:
    suffix = "pbtxt" if text else "pb"
    try:
        init = b"".join(bytes(part) for part in model.init.serialized())
    except BridgeError:  # a parameter that no fill makes
        return None
    nets = {f"predict_net.{suffix}": model.predict_net, f"init_net.{suffix}": NetDef.FromString(init)}
    encode: Callable[[NetDef], bytes] = _text if text else NetDef.SerializeToString
    return Input("text" if text else "net", {name: encode(net) for name, net in nets.items()})


def _text(net: NetDef) -> bytes:
    return text_format.MessageToString(net).encode()


def _golden_models() -> Iterator[Model]:
    for folder in sorted(MODELS.iterdir()):
        if (folder / "predict_net.pb").is_file():
            yield load(folder)


def _operator_models(draw: random.Random) -> Iterator[Model]:
    """A model of one golden case of each of a sample of operators and nets; its operands are parameters, or typed."""
    groups = {ref.group: ref for ref in find_cases(GOLDEN) if ref.kind != "model"}
    for group in sorted(draw.sample(sorted(groups), min(_GROUPS, len(groups)))):
        case = read_case(groups[group])
        if all(array.dtype != object for array in case.inputs.values()):
            yield _model_of(case, draw)


def _model_of(case: Case, draw: random.Random) -> Model:
    net = NetDef()
    net.CopyFrom(case.net)
    inputs = [name for name, array in case.inputs.items() if array.dtype == _FLOATS and draw.random() < 0.5]
    for name in inputs:
        shape = [f"d{axis}" if draw.random() < 0.3 else size for axis, size in enumerate(case.inputs[name].shape)]
        info = onnx.ValueInfoProto(name=name)
        info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        info.type.tensor_type.shape.SetInParent()
        for dim in shape:
            added = info.type.tensor_type.shape.dim.add()
            if isinstance(dim, str):
                added.dim_param = dim
            else:
                added.dim_value = dim
        net.arg.add(name="onnx_types", strings=[info.SerializeToString()])
    arrays = {name: array for name, array in case.inputs.items() if name not in inputs}
    parameters = [_parameter(name, array) for name, array in arrays.items()]
    try:
        return Model.of(net, b"".join(fill_net(parameters, ())))
    except BridgeError:
        return Model.of(net)


def _parameter(name: str, array: Array) -> Parameter:
    return Parameter(name, array.dtype, array.shape, lambda: array)


def _plans(models: list[Model], draw: random.Random) -> Iterator[Input]:
    for model in draw.sample(models, 30):
        init = NetDef.FromString(b"".join(bytes(part) for part in model.init.serialized()))
        init.name, body = "init", NetDef()
        body.CopyFrom(model.predict_net)
        body.name = "body"
        count = OperatorDef(type="ConstantFill", output=["stop"])
        count.arg.add(name="shape", ints=[1])
        init.op.append(count)
        inner = ExecutionStep(name="inner", network=["body"], num_iter=draw.randint(1, 3))
        loop = ExecutionStep(name="loop", substep=[inner], should_stop_blob="stop")
        plan = PlanDef(name="plan", network=[init, body])
        plan.execution_step.extend([ExecutionStep(name="first", network=["init"]), draw.choice((inner, loop))])
        yield Input("plan", {MAIN["plan"]: plan.SerializeToString()})


def _saved(model: Model, name: str, kind: str) -> Iterator[Input]:
    """A predictor database, if the format can hold the model."""
    with tempfile.TemporaryDirectory() as made:
        target = Path(made) / "model.minidb" if name == "minidb" else Path(made) / "model"
        try:
            save(model, target, name)
        except BridgeError:
            return
        yield _sparse(read_input(kind, Path(made)))


def _sparse(found: Input) -> Input:
    return Input(
        found.kind, {name: data.rstrip(b"\0") if name.endswith(".mdb") else data for name, data in found.files.items()}
    )


def _exports(models: list[Model]) -> Iterator[Input]:
    for model in models:
        try:
            exported = to_onnx(model)
        except BridgeError:
            continue
        yield Input("onnx", {MAIN["onnx"]: exported.SerializeToString()})


def _node_tests(draw: random.Random) -> Iterator[Input]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite's own arithmetic overflows on purpose
        tests = collect_testcases(None)
    for test in draw.sample(tests, min(_NODE_TESTS, len(tests))):
        yield Input("onnx", {MAIN["onnx"]: _with_operands(test, draw).SerializeToString()})


def _carried(models: list[Input]) -> Iterator[Input]:
    """Nets whose operators are ONNX nodes."""
    for found in models:
        try:
            carried = _input_of(to_netdef(found.files[MAIN["onnx"]], foreign="carry"), text=False)
        except BridgeError:
            continue
        if carried is not None:
            yield carried


def _with_operands(test: object, draw: random.Random) -> onnx.ModelProto:
    """The model of a node test; some of its operands become initializers."""
    model = onnx.ModelProto()
    model.CopyFrom(test.model)  # type: ignore[attr-defined] # onnx's tests are not typed
    inputs = test.data_sets[0][0]  # type: ignore[attr-defined]
    for info, value in zip(model.graph.input, inputs, strict=False):
        if isinstance(value, np.ndarray) and draw.random() < 0.5 and value.nbytes < _LARGEST // 4:
            tensor = onnx.numpy_helper.from_array(value, info.name)
            if draw.random() < 0.5:
                model.graph.initializer.append(tensor)
            else:
                constant = onnx.NodeProto(op_type="Constant", output=[info.name])
                constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR, t=tensor)
                kept = [constant, *model.graph.node]
                nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
                del model.graph.node[:]
                model.graph.node.extend(nodes)
    names = {output for node in model.graph.node for output in node.output if node.op_type == "Constant"}
    inputs_left = [info for info in model.graph.input if info.name not in names]
    copied = [onnx.ValueInfoProto.FromString(info.SerializeToString()) for info in inputs_left]
    del model.graph.input[:]
    model.graph.input.extend(copied)
    return model


def _arrays(draw: random.Random) -> Iterator[Input]:
    values = np.random.default_rng(draw.randrange(2**32))
    for save_to in (np.savez, np.savez_compressed):
        for _ in range(5):
            stream = io.BytesIO()
            save_to(
                stream, input_blob=values.random((2, 1, 94), np.float32), seq_lengths=np.array([2], np.int32),
                text=np.array(["a", "bc"]), empty=np.zeros((0, 3)),
            )  # fmt: skip
            yield Input("npz", {MAIN["npz"]: stream.getvalue()})


def _checkpoints(models: list[Model], draw: random.Random) -> Iterator[Input]:
    """The parameters of models as Detectron wrote them, in all protocols, compressed or in an archive or not."""
    for model in models:
        blobs: dict[str, object] = {name: array for name, array in model.params.items() if array.dtype != object}
        if not blobs:
            continue
        blobs |= {f"{next(iter(blobs))}_momentum": np.zeros(3, np.float32), "lr": np.float32(0.1), "iter": 7}
        data = pickle.dumps(draw.choice((blobs, {"blobs": blobs, "cfg": "MODEL: {}"})), draw.randint(0, 5))
        if draw.random() < 0.3:
            archive = io.BytesIO()
            with tarfile.open(fileobj=archive, mode="w") as tar:
                info = tarfile.TarInfo(CHECKPOINT)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
            data = archive.getvalue()
        data = gzip.compress(data) if draw.random() < 0.3 else data
        yield Input("pkl", {MAIN["pkl"]: model.predict_net.SerializeToString(), CHECKPOINT: data})
