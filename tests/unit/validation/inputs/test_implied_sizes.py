"""Sizes that follow from what a net does: of images, of classes, of states, of parts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from support.cells import fills
from support.nets import net, op
from support.paths import ROOT

from caffe2_backend import Workspace, validate
from caffe2_bridge import BridgeError, Model, load
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_validation.forms import Forms
from caffe2_validation.inputs.generate import Generated, generate
from caffe2_validation.inputs.implied_sizes import ImpliedSizes, implied_sizes
from caffe2_validation.options import ValidationOptions

SIDES = ("workspace", "onnxruntime-cpu")


def model(
    ops: list[OperatorDef], inputs: str, weights: Mapping[str, tuple[int, ...]] = {}, outputs: str = "y"
) -> Model:
    random = np.random.default_rng(0)
    values = {name: (0.1 * random.standard_normal(shape)).astype(np.float32) for name, shape in weights.items()}
    predict = NetDef(
        name="n", op=ops, external_input=[*inputs.split(), *weights], external_output=outputs.split()
    )  # fmt: skip
    return Model.of(predict, fills(values) if values else None)


def made(given: Model, *, random_weights: bool = False) -> Generated:
    return generate(Forms(given), options=ValidationOptions(random_weights=random_weights))


def shapes(given: Model, name: str = "x") -> list[tuple[int, ...]]:
    return [case.inputs[name].shape for case in made(given).cases]


LENET = [
    op("Conv", "x w b", "c", kernel=5),
    op("MaxPool", "c", "p", kernel=2, stride=2),
    op("Relu", "p", "p"),
    op("Conv", "p w2 b2", "d", kernel=3),
    op("MaxPool", "d", "q", kernel=2, stride=2),
]
WEIGHTS = {"w": (4, 3, 5, 5), "b": (4,), "w2": (6, 4, 3, 3), "b2": (6,)}


def test_a_layer_fixes_the_image() -> None:
    given = model([*LENET, op("FC", "q f g", "y")], "x", WEIGHTS | {"f": (2, 600), "g": (2,)})
    assert implied_sizes(given).images[0] == (48, 48)
    assert shapes(given) == [(1, 3, 48, 48), (3, 3, 48, 48), (2, 3, 48, 48)]
    assert "images are 48 by 48" in made(given).notes
    assert validate(given, runtimes=SIDES).agrees


@pytest.mark.oracle
def test_a_layer_fixes_the_image_in_real_caffe2() -> None:
    given = model([*LENET, op("FC", "q f g", "y")], "x", WEIGHTS | {"f": (2, 600), "g": (2,)})
    report = validate(given, runtimes=("caffe2", "onnxruntime-cpu"))
    assert report.agrees, report.to_json()


@pytest.mark.parametrize(
    "runtimes", [SIDES, pytest.param(("caffe2", "onnxruntime-cpu"), marks=pytest.mark.oracle)], ids=["own", "caffe2"]
)
def test_a_layer_fixes_the_frames_of_a_video(runtimes: tuple[str, ...]) -> None:
    ops = [
        op("Conv", "x w b", "c", kernels=[3, 3, 3], strides=[2, 2, 2], pads=[1, 1, 1, 1, 1, 1]),
        op("Relu", "c", "r"),
        op("AveragePool", "r", "p", kernels=[2, 16, 16]),
        op("FC", "p f g", "y"),
    ]
    given = model(ops, "x", {"w": (12, 3, 3, 3, 3), "b": (12,), "f": (5, 12), "g": (5,)})
    assert implied_sizes(given).frames == 4
    assert shapes(given) == [(1, 3, 4, 32, 32), (3, 3, 4, 32, 32), (2, 3, 4, 32, 32)]
    assert "videos have 4 frames" in made(given).notes
    report = validate(given, runtimes=runtimes)
    assert report.agrees, report.to_json()


def test_a_video_without_restrictions_is_small() -> None:
    given = model([op("Conv", "x w b", "y", kernels=[3, 3, 3])], "x", {"w": (4, 3, 3, 3, 3), "b": (4,)})
    assert shapes(given)[0] == (1, 3, 8, 32, 32)


def test_sizes_that_are_too_large_are_left_out_of_the_search() -> None:
    """The last candidates have one size for all dims: 131^5 elements exceed what may be synthesized."""
    text = """<ir_version: 9, opset_import: ["" : 20]>
        g (float[A,B,C,D,E] x) => (float[127,131] y) <int64[2] to = {127, 131}> { y = Reshape(x, to) }"""
    found = generate(Forms(onnx.parser.parse_model(text)))
    assert "no sizes of the inputs were found" in found.notes[0]


def test_height_and_width_may_differ() -> None:
    ops = [op("Conv", "x w b", "c", kernel=5), op("MaxPool", "c", "p", kernel=2, stride=2), op("FC", "p f g", "y")]
    given = model(ops, "x", {"w": (4, 3, 5, 5), "b": (4,), "f": (2, 4 * 10 * 22), "g": (2,)})
    assert shapes(given)[0] == (1, 3, 24, 48)


@pytest.mark.parametrize(
    "flatten",
    [
        [op("Reshape", "c", "r o", shape=[-1, 484])],
        [op("Reshape", "c", "r o", shape=[0, -1]), op("Relu", "r", "r")],
        [op("Transpose", "c", "t", axes=[0, 2, 3, 1]), op("Flatten", "t", "r")],
        [op("NCHW2NHWC", "c", "t"), op("Reshape", "t", "r o", shape=[0, 484])],
    ],
    ids=["-1", "copied", "transposed", "NHWC"],
)
def test_a_reshape_to_constants_fixes_the_image(flatten: list[OperatorDef]) -> None:
    ops = [op("Conv", "x w b", "c", kernel=3, stride=2), *flatten, op("FC", "r f g", "y")]
    given = model(ops, "x", {"w": (4, 3, 3, 3), "b": (4,), "f": (2, 484), "g": (2,)})
    assert shapes(given) == [(1, 3, 24, 24), (3, 3, 24, 24), (2, 3, 24, 24)]


def test_a_reshape_fixes_the_batch() -> None:
    ops = [op("Conv", "x w b", "c", kernel=3, stride=2), op("Reshape", "c", "y o", shape=[5, 4, 529])]
    given = model(ops, "x", {"w": (4, 3, 3, 3), "b": (4,)})
    assert shapes(given) == [(5, 3, 48, 48)]
    assert made(given).notes == ("images are 48 by 48", "the model fixes the batch at 5")


def test_operands_of_one_shape_restrict_the_image() -> None:
    ops = [
        op("MaxPool", "x", "p", kernel=2, stride=2), op("MaxPool", "p", "q", kernel=2, stride=2),
        op("ResizeNearest", "q", "r", height_scale=4.0, width_scale=4.0), op("Concat", "x r", "y o", axis=1),
    ]  # fmt: skip
    found = implied_sizes(model(ops, "x"), usual=(27, 64))
    assert found.images[:2] == ((32, 32), (64, 64))
    assert (27, 27) not in found.images


@pytest.mark.parametrize(
    "args",
    [{"legacy_pad": 3}, {"legacy_pad": 2}, {"legacy_pad": 1}, {"pad": 1}, {"dilation": 2}, {"legacy_pad": 3, "pad": 1}],
    ids=str,
)
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("image", [12, 13, 15])
def test_windows_are_counted_as_they_run(args: dict[str, int], kind: str, image: int) -> None:
    workspace = Workspace("cpu")
    pool = op(kind, "x", "p", kernel=3, stride=2, **args)
    workspace.feed("x", np.zeros((1, 3, image, image), np.float32))
    try:
        workspace.run_operator_once(pool)
    except BridgeError:
        pytest.skip("Caffe2 does not have this combination")
    columns = np.asarray(workspace.fetch("p")).size
    ops = [op("Conv", "i w b", "x", kernel=1), pool, op("FC", "p f g", "y")]
    given = model(ops, "i", {"w": (3, 5, 1, 1), "b": (3,), "f": (2, columns), "g": (2,)})
    assert (image, image) in implied_sizes(given).images


def test_nets_without_restrictions_imply_nothing() -> None:
    assert implied_sizes(model([op("Conv", "x w b", "y", kernel=5)], "x", {"w": (4, 3, 5, 5), "b": (4,)})).images == ()
    assert implied_sizes(model([op("Relu", "x", "y")], "x")) == ImpliedSizes()
    assert implied_sizes(model([op("MaxPool", "x", "y", stride=2)], "x")) == ImpliedSizes()  # no kernel: invalid


def test_class_counts_of_a_reshape() -> None:
    head = [
        op("Conv", "x w b", "c", kernel=3, pad=1), op("Transpose", "c", "t", axes=[0, 2, 3, 1]),
        op("Flatten", "t", "f"),
    ]  # fmt: skip
    for shape in ([-1, 21], [0, -1, 21]):
        ops = [*head, op("Reshape", "f", "r o", shape=shape), op("Softmax", "r", "y", axis=len(shape) - 1)]
        given = model(ops, "x w b")
        assert made(given, random_weights=True).forms.net.params["w"].shape[0] == 21
        assert validate(given, runtimes=SIDES, random_weights=True).agrees
    ops = [op("FC", "x w b", "h"), op("Reshape", "h", "r o", shape=[-1, 7, 3]), op("Sigmoid", "r", "y")]
    assert made(model(ops, "x w b"), random_weights=True).forms.net.params["w"].shape[0] == 21


def test_class_counts_of_an_input() -> None:
    given = model([op("Relu", "x", "h"), op("Reshape", "h", "r o", shape=[-1, 21]), op("Softmax", "r", "y")], "x")
    assert all(np.prod(shape) % 21 == 0 for shape in shapes(given))
    assert len(shapes(given)) == 3


STEP = [
    op("FC", "x wx bx", "gx", axis=2), op("FC", "h wh bh", "gh", axis=2), op("Add", "gx gh", "g"),
    op("LSTMUnit", "h c g lengths t", "y c2"),
]  # fmt: skip
STEP_WEIGHTS = {"wx": (28, 5), "bx": (28,), "wh": (28, 7), "bh": (28,)}


def test_states_of_a_step() -> None:
    given = model(STEP, "x h c lengths t", STEP_WEIGHTS, "y c2")
    (_, case, _) = made(given).cases
    found = {name: value.shape for name, value in case.inputs.items()}
    assert found["h"] == found["c"] == (1, 3, 7)
    assert found["lengths"] == (3,)
    assert validate(given, runtimes=SIDES).agrees
    without = model(STEP, "x h c lengths t wx bx wh bh", {}, "y c2")
    report = validate(without, runtimes=SIDES, random_weights=True)
    assert report.agrees
    assert len(report.cases) == 3


@pytest.mark.oracle
def test_states_of_a_step_in_real_caffe2() -> None:
    report = validate(model(STEP, "x h c lengths t", STEP_WEIGHTS, "y c2"), runtimes=("caffe2", "onnxruntime-cpu"))
    assert report.agrees, report.to_json()


def test_states_of_units_alone() -> None:
    assert shapes(model([op("LSTMUnit", "x c g lengths t", "y c2")], "x c g lengths t", {}, "y c2"))[1] == (1, 3, 6)
    (_, case, _) = made(model([op("GRUUnit", "x g lengths t", "y")], "x g lengths t")).cases
    assert case.inputs["g"].shape[-1] == 3 * case.inputs["x"].shape[-1]


def test_parts_of_a_concatenation_share_the_columns_of_its_reader() -> None:
    ops = [op("Concat", "x h", "xh o", axis=1), op("FC", "xh w b", "y")]
    given = model(ops, "x h", {"w": (7, 13), "b": (7,)})
    assert [shapes(given, name)[1] for name in ("x", "h")] == [(3, 6), (3, 7)]
    assert validate(given, runtimes=SIDES).agrees


def test_an_onnx_model_fixes_the_image() -> None:
    graph = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 20]>
        g (float[N, 3, H, W] x) => (float[N, 2] y) {
          c = Conv <kernel_shape = [5, 5]> (x, w)
          p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (c)
          f = Flatten <axis = 1> (p)
          y = Gemm <transB = 1> (f, m)
        }""")
    random = np.random.default_rng(0)
    for name, shape in {"w": (4, 3, 5, 5), "m": (2, 4 * 10 * 22)}.items():
        values = random.standard_normal(shape).astype(np.float32)
        graph.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    found = generate(Forms(graph), options=ValidationOptions())
    assert [case.inputs["x"].shape for case in found.cases] == [(1, 3, 24, 48), (3, 3, 24, 48), (2, 3, 24, 48)]
    assert found.notes == ("the model fixes sizes: H=24, W=48",)


@pytest.mark.parametrize("name", ["lstm", "gru", "milstm", "lstm_two_layers"])
def test_recurrent_nets_without_weights(name: str) -> None:
    given = Model.of(load(ROOT / "tests" / "golden" / "models" / name).predict_net)
    report = validate(given, runtimes=SIDES, random_weights=True)
    assert report.agrees, report.to_json()
    assert report.cases == ("T=1 N=1", "T=6 N=3", "T=17 N=2")
    found = made(given, random_weights=True)
    for case in found.cases:
        states = {case.inputs[name].shape for name in case.inputs if name.startswith("init_")}
        assert {shape[-1] for shape in states} == {6}
        assert {shape[-2] for shape in states} == {case.inputs["input"].shape[1]}


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_recurrent_nets_without_weights_in_real_caffe2(name: str) -> None:
    given = Model.of(load(ROOT / "tests" / "golden" / "models" / name).predict_net)
    report = validate(given, runtimes=("caffe2", "onnxruntime-cpu"), random_weights=True)
    assert report.agrees, report.to_json()


def test_quantized_inputs_of_unknown_scale() -> None:
    fill = op("Int8GivenTensorFill", "", "z", shape=[2, 3], values=bytes(range(6)), Y_scale=1.0, Y_zero_point=0)
    predict = net(op("Int8SumRelu", "x z", "y", Y_scale=2.0, Y_zero_point=0), inputs="x z")
    assert validate(Model.of(predict, NetDef(name="init", op=[fill])), runtimes=SIDES).agrees
