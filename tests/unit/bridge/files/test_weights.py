"""Weights for other frameworks: what is written, and under which names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.paths import CHAR_RNN

import caffe2_bridge as c2
from caffe2_bridge import BridgeError, InitNet
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.files.weight_names import parse_names, rename_parameters
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

ARRAYS: dict[str, Any] = {
    "half": np.ones((1, 3), np.float16), "scope/w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "flag": np.ones(1, "?"), "byte": np.arange(3, dtype=np.uint8), "short": np.arange(3, dtype=np.int16),
    "word": np.arange(3, dtype=np.uint16),
    "long": np.array(7), "double": np.array([0.1]), "empty": np.zeros((0, 3), np.float32),
}  # fmt: skip


def init_of(arrays: dict[str, Any]) -> InitNet:
    return InitNet({name: Parameter(name, a.dtype, a.shape, a.copy) for name, a in arrays.items()})


def read(path: Path) -> dict[str, Any]:
    if path.suffix == ".npz":
        with np.load(path) as archive:
            return dict(archive)
    if path.suffix == ".pt":
        torch = pytest.importorskip("torch")
        return {name: tensor.numpy() for name, tensor in torch.load(path, weights_only=True).items()}
    found: dict[str, Any] = pytest.importorskip("safetensors.numpy").load_file(path)
    return found


@pytest.mark.parametrize("suffix", ["safetensors", "npz", pytest.param("pt", marks=pytest.mark.torch)])
def test_each_format_has_what_its_own_reader_reads(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"weights.{suffix}"
    saved = c2.save_weights(init_of(ARRAYS), path)
    assert (saved.format, saved.left_out, saved.renamed.unmatched) == (suffix, {}, ())
    found = read(path)
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)


def test_safetensors_are_aligned(tmp_path: Path) -> None:
    c2.save_weights(init_of({"a": ARRAYS["byte"], "b": ARRAYS["double"]}), tmp_path / "w.safetensors")
    data = (tmp_path / "w.safetensors").read_bytes()
    assert int.from_bytes(data[:8], "little") % 8 == 0
    assert data.endswith(ARRAYS["double"].tobytes() + ARRAYS["byte"].tobytes())


def test_a_model_and_what_is_left_out(tmp_path: Path) -> None:
    model = c2.load(CHAR_RNN)
    c2.save_weights(model, tmp_path / "w", format="npz")
    assert set(read_npz(tmp_path / "w")) == set(model.params)
    text = np.array([b"a"], object)
    init = InitNet(
        {
            "t": Parameter("t", text.dtype, text.shape, text.copy),
            "q": Parameter("q", np.dtype(np.uint8), (1,), lambda: np.zeros(1, np.uint8), 0.5, 3),
            "w": Parameter("w", np.dtype(np.float32), (1,), lambda: np.zeros(1, np.float32)),
        },
        rest=c2.read_init(NetDef(op=[OperatorDef(type="Foo", input=["w"], output=["computed"])])).rest,
    )
    assert c2.save_weights(init, tmp_path / "w.npz").left_out == {
        "computed": "Foo computes it when the net runs",
        "t": "a tensor of object",
        "q": "an Int8 tensor of scale 0.5 and zero point 3",
    }


def read_npz(path: Path) -> dict[str, Any]:
    with np.load(path) as archive:
        return dict(archive)


def test_patterns_are_applied_in_order() -> None:
    renamed = rename_parameters(["a_w", "b_w", "c"], rename=[("^a", "x"), ("^x_w$", "y"), ("w$", "weight"), ("z", "")])
    assert renamed.names == {"a_w": "y", "b_w": "b_weight", "c": "c"}
    assert renamed.unmatched == ("c",)
    assert renamed.unused == ("z",)


def test_tables_name_what_is_written(tmp_path: Path) -> None:
    table = parse_names("scope/w  fc.weight # a comment\n\n# another\nnone\tn\n")
    saved = c2.save_weights(init_of(ARRAYS), tmp_path / "w.npz", names=table)
    assert set(read_npz(tmp_path / "w.npz")) == {"fc.weight"}
    assert set(saved.renamed.unmatched) == set(ARRAYS) - {"scope/w"}
    assert saved.renamed.unused == ("none",)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"rename": [("(", "")]}, r"pattern '\(' with replacement ''"),
        ({"rename": [("w", r"\1")]}, "invalid group reference"),
        ({"rename": [("^.*", "x")]}, "have the same new name 'x'"),
        ({"rename": [("half", "__metadata__")]}, "reserved"),
        ({"rename": [("a", "b")], "names": {}}, "exclude each other"),
        ({"names": {"none": "x"}}, "no parameters to write that the names match"),
        ({"format": "onnx"}, "must be one of safetensors, npz, pt, not 'onnx'"),
    ],
)
def test_what_is_refused_and_why(options: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(BridgeError, match=reason):
        c2.save_weights(init_of(ARRAYS), tmp_path / "w.npz", **options)
    assert list(tmp_path.iterdir()) == []


def test_no_parameters_and_no_suffix(tmp_path: Path) -> None:
    with pytest.raises(BridgeError, match=r"there are no parameters to write$"):
        c2.save_weights(InitNet(), tmp_path / "w.npz")
    with pytest.raises(OptionError, match="not None"):
        c2.save_weights(init_of(ARRAYS), tmp_path / "weights")


@pytest.mark.parametrize("text", ["a", "a b c", "a b\na c"])
def test_tables_that_are_none(text: str) -> None:
    with pytest.raises(OptionError, match="of the table of names"):
        parse_names(text)
