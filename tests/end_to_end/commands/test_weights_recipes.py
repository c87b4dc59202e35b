"""``convert`` to weights, and the recipes of docs/weights.md on checkpoints of their names and shapes."""

from __future__ import annotations

import pickle  # noqa: TID251 - it writes what is read here
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commands import call
from support.paths import CHAR_RNN, ROOT

Shapes = dict[str, tuple[int, ...]]


def recipe(title: str) -> list[str]:
    """Return the arguments of a recipe's command, behind the files."""
    section = (ROOT / "docs" / "weights.md").read_text("utf-8").partition(f"## {title}\n")[2]
    command = section.partition("$ ")[2].partition("```")[0].replace("\\\n", " ")
    return shlex.split(command)[5:]


def norm(caffe2: str, torch: str, count: int, *, statistics: bool) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    parts = {"_s": ".weight", "_b": ".bias"} | ({"_rm": ".running_mean", "_riv": ".running_var"} if statistics else {})
    yield from ((caffe2 + old, torch + new, (count,)) for old, new in parts.items())


def resnet50() -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield the names in Detectron and torchvision, and the shapes."""
    yield "conv1_w", "conv1.weight", (64, 3, 7, 7)
    yield from norm("res_conv1_bn", "bn1", 64, statistics=False)
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner = 64 << stage
        for block in range(blocks):
            old, new = f"res{stage + 2}_{block}_branch", f"layer{stage + 1}.{block}"
            shapes = ((inner, channels, 1, 1), (inner, inner, 3, 3), (4 * inner, inner, 1, 1))
            for index, shape in enumerate(shapes):
                yield f"{old}2{'abc'[index]}_w", f"{new}.conv{index + 1}.weight", shape
                yield from norm(f"{old}2{'abc'[index]}_bn", f"{new}.bn{index + 1}", shape[0], statistics=False)
            if block == 0:
                yield f"{old}1_w", f"{new}.downsample.0.weight", (4 * inner, channels, 1, 1)
                yield from norm(f"{old}1_bn", f"{new}.downsample.1", 4 * inner, statistics=False)
            channels = 4 * inner
    yield "fc1000_w", "fc.weight", (1000, 2048)
    yield "fc1000_b", "fc.bias", (1000,)


def r2plus1d_18() -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield the names in VMZ and torchvision, and the shapes."""
    yield "conv1_middle_w", "stem.0.weight", (45, 3, 1, 7, 7)
    yield from norm("conv1_middle_spatbn_relu", "stem.1", 45, statistics=True)
    yield "conv1_w", "stem.3.weight", (64, 45, 3, 1, 1)
    yield from norm("conv1_spatbn_relu", "stem.4", 64, statistics=True)
    channels = 64
    for component in range(8):
        stage, block = divmod(component, 2)
        old, new, planes = f"comp_{component}_", f"layer{stage + 1}.{block}", 64 << stage
        for index, inputs in ((1, channels), (2, planes)):
            middle = (inputs * planes * 27) // (inputs * 9 + 3 * planes)
            yield f"{old}conv_{index}_middle_w", f"{new}.conv{index}.0.0.weight", (middle, inputs, 1, 3, 3)
            yield from norm(f"{old}spatbn_{index}_middle", f"{new}.conv{index}.0.1", middle, statistics=True)
            yield f"{old}conv_{index}_w", f"{new}.conv{index}.0.3.weight", (planes, middle, 3, 1, 1)
            yield from norm(f"{old}spatbn_{index}", f"{new}.conv{index}.1", planes, statistics=True)
        if planes != channels:
            shortcut = f"shortcut_projection_{component}"
            yield f"{shortcut}_w", f"{new}.downsample.0.weight", (planes, channels, 1, 1, 1)
            yield from norm(f"{shortcut}_spatbn", f"{new}.downsample.1", planes, statistics=True)
        channels = planes
    yield "last_out_L400_w", "fc.weight", (400, 512)
    yield "last_out_L400_b", "fc.bias", (400,)


@pytest.mark.parametrize(
    ("title", "layers", "suffix", "count"),
    [
        ("Detectron's ResNet-50 in torchvision", resnet50, "npz", 161),
        ("VMZ's R(2+1)D-18 in torchvision", r2plus1d_18, "npz", 187),
        pytest.param("Detectron's ResNet-50 in torchvision", resnet50, "pt", 161, marks=pytest.mark.torch),
    ],
)
def test_recipes(title: str, layers: Any, suffix: str, count: int, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    named = list(layers())
    blobs = {old: draw.standard_normal(shape).astype(np.float32) for old, _, shape in named}
    state = {f"{old}_momentum": np.zeros(1, np.float32) for old in blobs}
    checkpoint, out = tmp_path / "checkpoint.pkl", tmp_path / f"weights.{suffix}"
    checkpoint.write_bytes(pickle.dumps({"blobs": blobs | state | {"lr": np.float32(0.01)}}, 2))
    result = call("convert", checkpoint, "-o", out, *recipe(title))
    assert (result.exit_code, result.stdout) == (0, f"{out}: {suffix}, {count} tensors, {out.stat().st_size:,} bytes\n")
    assert re.fullmatch(r"init: note: \d+ blobs of the checkpoint are left out .*\n", result.stderr)
    found = read(out)
    assert set(found) == {new for _, new, _ in named}
    for old, new, _ in named:
        np.testing.assert_array_equal(found[new], blobs[old])


def read(path: Path) -> dict[str, Any]:
    if path.suffix == ".pt":
        torch = pytest.importorskip("torch")
        return {name: tensor.numpy() for name, tensor in torch.load(path, weights_only=True).items()}
    with np.load(path) as archive:
        return dict(archive)


def test_what_does_not_match_is_listed(tmp_path: Path) -> None:
    out, table = tmp_path / "w.npz", tmp_path / "names"
    result = call("convert", CHAR_RNN, "-o", out, "--rename", "^logits_(.)=fc.\\1", "--rename", "none=")
    assert result.exit_code == 0
    assert result.stderr == (
        "note: weights that no pattern matches: 'LSTM/i2h_w', 'LSTM/i2h_b', 'LSTM/gates_t_w', 'LSTM/gates_t_b'\n"
        "note: what matches no weight: 'none'\n"
    )
    assert {"fc.w", "fc.b", "LSTM/i2h_w"} < set(read(out))
    table.write_text("logits_w fc.weight\nlogits_x fc.bias\n")
    result = call("convert", CHAR_RNN, out, "--names", table)
    assert result.stderr.startswith("note: weights that the table lacks, left out: 'LSTM/i2h_w', ")
    assert result.stderr.endswith("note: what matches no weight: 'logits_x'\n")
    assert set(read(out)) == {"fc.weight"}


def test_wrong_usage(tmp_path: Path) -> None:
    for words in (
        (CHAR_RNN,),
        (CHAR_RNN, tmp_path / "a", "-o", tmp_path / "b"),
        (CHAR_RNN, tmp_path / "a", "--rename", "a=b"),
        (CHAR_RNN, tmp_path / "a.npz", "--rename", "a"),
        (CHAR_RNN, tmp_path / "a.npz", "--rename", "(=b"),
    ):
        assert call("convert", *words).exit_code == 2
    assert list(tmp_path.iterdir()) == []
