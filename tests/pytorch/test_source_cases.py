"""Recorded cases of operators through exported source, compared with what real Caffe2 computed."""

from __future__ import annotations

from importlib import import_module, util
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from conformance.__main__ import BASELINES, GOLDEN
from conformance.compare import mismatches
from conformance.corpus import CaseRef, find_cases, read_case
from conformance.recording import operator
from conformance.report import read_baseline

from caffe2_bridge import BridgeError, ConversionError, Int8Tensor, Model, construct_init_net_from_params
from caffe2_bridge.proto.caffe2_pb2 import NetDef

pytestmark = pytest.mark.torch

torch: Any = pytest.importorskip("torch")

# The families of emitters whose copied functions (boxes, features, int8, ranking, regions, segments) are to be proved.
FAMILIES: Final = ("detection", "lengths", "quantized", "segments", "sparse")
PER_TYPE: Final = 4
MUST_PASS: Final = read_baseline(BASELINES["pytorch"])


def cases_of(family: str) -> dict[str, list[CaseRef]]:
    types = import_module(f"caffe2_torch.source.emitters.{family}").family.handlers
    found: dict[str, list[CaseRef]] = {}
    for ref in find_cases(GOLDEN):
        if ref.kind == "op" and ref.group in types and ref.id in MUST_PASS:
            found.setdefault(ref.group, []).append(ref)
    # Some from all over, rather than those that were recorded first.
    return {name: refs[:: max(1, len(refs) // PER_TYPE)] for name, refs in found.items()}


def run_source(model: Model, folder: Path, inputs: dict[str, Any], outputs: list[str]) -> dict[str, Any]:
    from caffe2_torch import export_torch

    export_torch(model, folder, examples=inputs, inputs=list(inputs), outputs=outputs)
    spec = util.spec_from_file_location("exported", folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    source = util.module_from_spec(spec)
    spec.loader.exec_module(source)
    module = source.load()
    data = [inputs[name].data if isinstance(inputs[name], Int8Tensor) else inputs[name] for name in module.inputs]
    with torch.no_grad():
        results = module(*map(torch.tensor, data))
    results = results if isinstance(results, tuple) else (results,)
    return {name: value.numpy() for name, value in zip(module.outputs, results, strict=True)}


@pytest.mark.parametrize("family", FAMILIES)
def test_source_computes_what_caffe2_computed(family: str, tmp_path: Path) -> None:
    wrong: list[str] = []
    for op_type, refs in cases_of(family).items():
        exported = 0
        for ref in refs:
            case = read_case(ref)
            inputs = {
                name: Int8Tensor(value, *case.quantized[name]) if name in case.quantized else value
                for name, value in case.inputs.items()
            }
            try:
                # A folder a case: Python takes compiled code for a source of the same second and size.
                folder = tmp_path / ref.id.replace("/", "-")
                found = run_source(Model.of(case.net, case.init_net), folder, inputs, list(case.outputs))
            except ConversionError:  # a form of the operator without source
                continue
            exported += 1
            wrong += [f"{ref.id}: {text}" for text in mismatches(case.outputs, found)]
        assert exported, f"no case of {op_type} has source"
    assert not wrong, "\n".join(wrong)


def test_a_table_of_one_lookup_is_an_embedding_bag(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    table = random.standard_normal((7, 3), np.float32)
    net = NetDef(name="n", external_input=["w", "table", "i", "n"], external_output=["y"])
    net.op.append(operator("SparseLengthsWeightedSum", ["table", "w", "i", "n"], ["y"]))
    inputs = {
        "w": random.standard_normal(4, np.float32),
        "i": np.array([2, 5, 2, 0], np.int32),
        "n": np.array([3, 0, 1], np.int32),
    }
    found = run_source(Model.of(net, construct_init_net_from_params({"table": table})), tmp_path, inputs, ["y"])["y"]
    rows = table[inputs["i"]] * inputs["w"][:, None]
    np.testing.assert_allclose(found, [rows[:3].sum(0), np.zeros(3), rows[3]], rtol=1e-5, atol=1e-6)
    text = (tmp_path / "model.py").read_text()
    assert 'self.table = nn.EmbeddingBag(7, 3, mode="sum")' in text
    assert "y = self.table(i.long(), starts(n), per_sample_weights=w)" in text


def test_int8_parameters_have_their_scales_in_the_source(tmp_path: Path) -> None:
    net = NetDef(name="n", external_input=["x", "w", "b"], external_output=["y"])
    net.op.extend(
        [
            operator("Int8Quantize", ["x"], ["q"], Y_scale=0.1, Y_zero_point=3),
            operator("Int8FC", ["q", "w", "b"], ["y"], Y_scale=0.5, Y_zero_point=7),
        ]
    )
    weight = Int8Tensor(np.arange(6, dtype=np.uint8).reshape(2, 3), np.float32(0.3), 2)
    bias = Int8Tensor(np.array([1, -4], np.int32), np.float32(0.03), 0)
    model = Model.of(net, construct_init_net_from_params({"w": weight, "b": bias}))
    x = np.array([[0.5, -0.2, 1.0]], np.float32)
    found = run_source(model, tmp_path, {"x": x}, ["y"])["y"]
    steps = np.rint(x / np.float32(0.1)) @ (weight.data.astype(int).T - 2) + bias.data
    np.testing.assert_array_equal(found, np.floor(steps * 0.06 + 0.5) + 7)
    text = (tmp_path / "model.py").read_text()
    assert "q = quantize(x, 0.1, 3)\n" in text
    assert "y = multiply_quantized(q, Quantized(self.w, 0.3, 2), self.b, 0.5, 7)\n        return y.data\n" in text
    assert "y: uint8 [1, 2], Int8 of scale 0.5 and zero point 7" in text


def test_source_holds_what_it_calls(tmp_path: Path) -> None:
    """The functions of the library are copied with those that they call, and the modules that they need imported."""
    from caffe2_torch.source.library import FUNCTIONS, copied_functions

    for name in FUNCTIONS:
        text = "\n".join(copied_functions([name]))
        head = "import math\nfrom typing import NamedTuple\nimport torch\nimport torch.nn.functional as F\n"
        compile(head + text, str(tmp_path), "exec")
        assert f"def {name}(" in text or f"class {name}(" in text
    assert [text.split("(")[0] for text in copied_functions(["suppress"])] == [
        "def areas", "def overlaps", "def suppress",
    ]  # fmt: skip


def test_levels_that_do_not_fit_are_refused() -> None:
    from caffe2_bridge.netdef.views import OpView
    from caffe2_torch.evaluation import box_options

    args = OpView(operator("CollectRpnProposals", ["a"] * 6, ["b"], rpn_min_level=2, rpn_max_level=4), 0).args
    assert box_options.collection_limit(args, 6) == 2000
    with pytest.raises(BridgeError, match="levels 2 to 4 require 6 inputs, not 5"):
        box_options.collection_limit(args, 5)
    with pytest.raises(BridgeError, match="levels 2 to 5 do not have 3 outputs of boxes"):
        box_options.distribution_options(args, 3)
