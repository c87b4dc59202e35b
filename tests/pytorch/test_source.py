"""Source of nets: what it says, and that it computes what the module of to_torch computes.

``CAFFE2_BRIDGE_UPDATE_SOURCE=1`` writes the golden files in ``source/`` again.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from click.testing import CliRunner
from conformance.__main__ import GOLDEN
from conformance.corpus import find_cases, read_case
from conformance.recording import operator

from caffe2_bridge import BridgeError, ConversionError, Model, construct_init_net_from_params, load, save
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_cli.commands import main

pytestmark = pytest.mark.torch

torch: Any = pytest.importorskip("torch")

MODELS: Final = GOLDEN / "models"
SOURCE: Final = Path(__file__).with_name("source")
RANDOM: Final = np.random.default_rng(7)
IMAGE: Final = RANDOM.standard_normal((2, 3, 9, 9), np.float32)


def export(model: Model, folder: Path, examples: Mapping[str, Any], **options: Any) -> str:
    import caffe2_torch

    files = caffe2_torch.export_torch(model, folder, examples=examples, **options)
    assert sorted(path.name for path in files) == ["check.py", "model.py", "model.safetensors", "recorded.npz"]
    return (folder / "model.py").read_text(encoding="utf-8")


def loaded(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("exported_model", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load()


def model(*ops: Any, outputs: tuple[str, ...] = ("y",), name: str = "n", **params: Any) -> Model:
    net = NetDef(name=name, op=ops, external_input=["x", *params], external_output=outputs)
    return Model.of(net, construct_init_net_from_params(params))


def assert_equals_module(given: Model, folder: Path, examples: Mapping[str, Any], others: Mapping[str, Any]) -> str:
    """Compare the source with the module, on the examples and on inputs of other sizes."""
    from caffe2_torch import to_torch

    text = export(given, folder, examples)
    module, source = to_torch(given).eval(), loaded(folder)
    assert (source.inputs, source.outputs) == (module.inputs, module.outputs)
    for inputs in (examples, others):
        tensors = [torch.from_numpy(inputs[name]) for name in module.inputs]
        with torch.no_grad():
            expected, found = module(*tensors), source(*tensors)
        both = zip(*(value if isinstance(value, tuple) else (value,) for value in (expected, found)), strict=True)
        for one, other in both:
            torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-6)
    return text


def weights(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.standard_normal(shape, np.float32)


@pytest.mark.parametrize("name", sorted(path.name for path in MODELS.iterdir()))
def test_golden_models_equal_real_caffe2(name: str, tmp_path: Path) -> None:
    cases = [read_case(ref) for ref in find_cases(MODELS / name)]
    given = load(MODELS / name)
    export(given, tmp_path, cases[0].inputs)
    source, compared = loaded(tmp_path), 0
    for case in cases:
        results = source(*(torch.from_numpy(case.inputs[blob]) for blob in source.inputs))
        results = results if isinstance(results, tuple) else (results,)
        for blob, value in zip(source.outputs, results, strict=True):
            if blob in case.outputs:
                np.testing.assert_allclose(value.detach().numpy(), case.outputs[blob], rtol=1e-4, atol=1e-5)
                compared += 1
    assert compared


@pytest.mark.parametrize("name", ["attention_regular", "basic_rnn_tanh", "control_while_if", "gru", "lstm"])
def test_source_is_the_golden_one(name: str, tmp_path: Path) -> None:
    case = read_case(next(iter(find_cases(MODELS / name))))
    text = export(load(MODELS / name), tmp_path, case.inputs)
    golden = SOURCE / f"{name}.txt"
    if os.environ.get("CAFFE2_BRIDGE_UPDATE_SOURCE"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    imported = {node.names[0].name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import)}
    assert imported == {"json", "torch", "torch.nn.functional"}


OPERATORS: Final = {
    "conv": (operator("Conv", ["x", "w", "b"], ["y"], kernel=3, pad=1, stride=2), {"w": (4, 3, 3, 3), "b": (4,)}),
    "conv_grouped": (operator("Conv", ["x", "w"], ["y"], kernels=[3, 1], group=3), {"w": (6, 1, 3, 1)}),
    "conv_pads": (operator("Conv", ["x", "w"], ["y"], kernel=3, pads=[0, 1, 2, 1]), {"w": (2, 3, 3, 3)}),
    "conv_nhwc": (operator("Conv", ["x", "w"], ["y"], kernel=1, order="NHWC"), {"w": (4, 1, 1, 9)}),
    "transposed": (operator("ConvTranspose", ["x", "w"], ["y"], kernel=3, stride=2, pad=1), {"w": (3, 2, 3, 3)}),
    "pool_of_caffe": (operator("MaxPool", ["x"], ["y"], kernel=3, stride=2, legacy_pad=3), {}),
    "pool_pads": (operator("MaxPool", ["x"], ["y"], kernel=3, stride=2, pads=[0, 0, 1, 1]), {}),
    "pool_mean": (operator("AveragePool", ["x"], ["y"], kernel=3, stride=2, pad=1), {}),
    "pool_mean_pads": (operator("AveragePool", ["x"], ["y"], kernel=4, stride=2, pads=[0, 0, 1, 1]), {}),
    "pool_all": (operator("AveragePool", ["x"], ["y"], global_pooling=1), {}),
    "lrn": (operator("LRN", ["x"], ["y", "scale"], size=3, alpha=0.1, beta=0.75), {}),
    "fc": (operator("FC", ["x", "w", "b"], ["y"], axis=3), {"w": (5, 9), "b": (5,)}),
    "scale": (operator("Mul", ["x", "w"], ["y"], broadcast=1, axis=1), {"w": (3,)}),
    "softmax": (operator("Softmax", ["x"], ["y"]), {}),
    "slice": (operator("Slice", ["x"], ["y"], starts=[0, 1, 0, 2], ends=[-1, -1, 4, -2]), {}),
    "reshape": (operator("Reshape", ["x"], ["y", "old"], shape=[0, -1]), {}),
    "trailing": (operator("Mul", ["x", "w"], ["y"], broadcast=1), {"w": (1, 9)}),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_equal_the_module(name: str, tmp_path: Path) -> None:
    op, shapes = OPERATORS[name]
    params = {blob: weights(*shape) for blob, shape in shapes.items()}
    other = RANDOM.standard_normal((3, 3, 9, 9), np.float32)
    assert_equals_module(model(op, **params), tmp_path, {"x": IMAGE}, {"x": other})


def test_moments_and_parameters_of_the_net_become_layers(tmp_path: Path) -> None:
    names = ("bn_s", "bn_b", "bn_rm", "bn_riv")
    ops = [
        operator("SpatialBN", ["x", *names], ["h", "bn_rm", "bn_riv", "m", "v"], is_test=0, momentum=0.75),
        operator("Relu", ["h"], ["h"]),
        operator("FC", ["h", "fc_w", "fc_b"], ["y"]),
    ]
    params = {name: np.abs(weights(3)) for name in names} | {"fc_w": weights(4, 243), "fc_b": weights(4)}
    text = assert_equals_module(model(*ops, **params), tmp_path, {"x": IMAGE}, {"x": IMAGE[:1]})
    assert "self.bn = nn.BatchNorm2d(3, momentum=0.25)" in text
    assert "self.fc = nn.Linear(243, 4)" in text
    assert "        h = self.bn(x)\n        h = F.relu(h)\n        y = self.fc(h.flatten(1))\n" in text


def test_a_weight_of_two_layers_is_held_once(tmp_path: Path) -> None:
    ops = [operator("FC", ["x", "w", "b"], ["h"]), operator("FC", ["h", "w", "b"], ["y"])]
    x = weights(2, 3)
    text = assert_equals_module(model(*ops, w=weights(3, 3), b=weights(3)), tmp_path, {"x": x}, {"x": x[:1]})
    assert "self.w = nn.Parameter(torch.empty(3, 3))" in text


def test_a_parameter_that_the_net_writes_is_a_variable(tmp_path: Path) -> None:
    ops = [operator("Add", ["w", "x"], ["w"]), operator("Add", ["w", "x"], ["y"])]
    x = weights(3)
    assert "w = self.w" in assert_equals_module(model(*ops, w=weights(3)), tmp_path, {"x": x}, {"x": -x})


HOSTILE: Final = (
    'a"""\nimport os\nraise SystemExit(3)\n"""', "b\nraise SystemExit(3)", "c'); raise SystemExit(3) #", 'd"', "e\\",
    "f{x}", "class", "self", "torch", "print", "__init__", "1", "é", "\u2028", "load", " ", "forward", "lambda x: 1",
)  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE)
def test_names_cannot_leave_their_place(hostile: str, tmp_path: Path) -> None:
    """Try each as the name of an input, a parameter, an output and the net."""
    weight, output = hostile + "_w", hostile + "_y"
    bias = hostile + "+"
    net = NetDef(name=hostile, external_input=[hostile, weight, bias], external_output=[output])
    net.op.extend(
        [
            operator("FC", [hostile, weight, bias], [hostile + "_h"]),
            operator("Add", [hostile + "_h", bias], [output]),
        ]
    )
    params = {weight: weights(2, 3), bias: weights(2)}
    given = Model.of(net, construct_init_net_from_params(params))
    x = weights(1, 3)
    text = assert_equals_module(given, tmp_path, {hostile: x}, {hostile: x})
    tree = ast.parse(text)
    assert not any(isinstance(node, ast.Raise) for node in ast.walk(tree))
    assert ast.literal_eval(next(n.value for n in tree.body if isinstance(n, ast.Assign)))


def test_the_check_compares_with_what_was_recorded(tmp_path: Path) -> None:
    given = model(operator("FC", ["x", "w", "b"], ["y"]), w=weights(2, 3), b=weights(2))
    export(given, tmp_path, {"x": weights(4, 3)})
    check = [sys.executable, str(tmp_path / "check.py")]
    done = subprocess.run(check, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert (done.returncode, done.stdout) == (0, "'y': ok, largest difference 0\n"), done.stderr
    recorded = dict(np.load(tmp_path / "recorded.npz"))
    np.savez(tmp_path / "recorded.npz", **recorded | {"output_0": recorded["output_0"] + 1})
    done = subprocess.run(check, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert done.returncode == 1
    assert "DIFFERENT" in done.stdout


def test_all_operators_without_source_are_reported_at_once(tmp_path: Path) -> None:
    ops = [
        operator("LpPool", ["x"], ["h"], kernel=2),
        operator("Sinh", ["h"], ["i"]),
        operator("LC", ["i", "x"], ["y"]),
    ]
    target = tmp_path / "out"
    with pytest.raises(ConversionError) as error:
        export(model(*ops), target, {})
    assert [(d.code, d.location.index) for d in error.value.findings] == [
        ("unknown-operator", 0), ("unknown-operator", 2),
    ]  # fmt: skip
    assert not target.exists()


def test_arguments_without_source_are_refused(tmp_path: Path) -> None:
    lrn = operator("LRN", ["x"], ["y", "s"], size=4)
    with pytest.raises(ConversionError, match="an even size is not supported"):
        export(model(lrn), tmp_path, {"x": IMAGE})
    texts = model(operator("Shape", ["s"], ["y"]), s=np.array(["a"], object))
    with pytest.raises(ConversionError, match="the parameter 's' is not a tensor"):
        export(texts, tmp_path, {"x": IMAGE})
    with pytest.raises(BridgeError, match="input 'x' is missing"):
        export(model(operator("Relu", ["x"], ["y"])), tmp_path, {})


def test_the_command_writes_a_folder(tmp_path: Path) -> None:
    save(model(operator("FC", ["x", "w", "b"], ["y"]), w=weights(2, 3), b=weights(2)), tmp_path / "m")
    arguments = ["export", str(tmp_path / "m"), "--to", "torch", "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(main, [*arguments, "--input", "x=float32[5,3]"])
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "check.py", "model.py", "model.safetensors", "recorded.npz",
    ]  # fmt: skip
    assert np.load(tmp_path / "out" / "recorded.npz")["input_0"].shape == (5, 3)
    refused = CliRunner().invoke(main, [*arguments, "--opset", "18"])
    assert refused.exit_code == 2
    assert "--opset is an option of ONNX" in refused.output
