"""The init net of a predict net by its name, and the predict net of a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from caffe2_bridge.diagnostics import BridgeError, NetFormatError
from caffe2_bridge.files.optional_packages import required
from caffe2_bridge.files.pairing import files_in, init_net_beside, init_net_stems, is_init_net, predict_net_in


def made(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("predict", "init"),
    [
        ("predict_net.pb", "init_net.pb"),
        ("x_predict_net.pb", "x_init_net.pb"),
        ("x_predict.pbtxt", "x_init.pbtxt"),
        ("x-exec-net.pb", "x-init-net.pb"),
        ("lstmPredict.pb", "lstmInit.pb"),
        ("x_net.pb", "x_init_net.pb"),
        ("model.pb", "model_init.pb"),
        ("PREDICT_NET.pb", "INIT_NET.pb"),
        ("predict_net_v2.pb", "init_net_v2.pb"),
    ],
)
def test_names_that_belong_together(tmp_path: Path, predict: str, init: str) -> None:
    made(tmp_path, predict, init, "other_init_net_of_others.txt")
    assert init_net_beside(tmp_path / predict) == tmp_path / init
    assert is_init_net(tmp_path / init)
    assert not is_init_net(tmp_path / predict)
    assert predict_net_in(tmp_path) == tmp_path / predict


def test_one_net_and_one_init_net_of_other_names_are_a_pair(tmp_path: Path) -> None:
    made(tmp_path, "deploy.pb", "weights_init_net.pb")
    assert init_net_beside(tmp_path / "deploy.pb") == tmp_path / "weights_init_net.pb"
    made(tmp_path, "third.pb")
    assert init_net_beside(tmp_path / "deploy.pb") is None


def test_the_format_of_the_predict_net_is_preferred(tmp_path: Path) -> None:
    made(tmp_path, "predict_net.pb", "predict_net.pbtxt", "init_net.pb", "init_net.pbtxt")
    assert init_net_beside(tmp_path / "predict_net.pbtxt") == tmp_path / "init_net.pbtxt"
    assert predict_net_in(tmp_path) == tmp_path / "predict_net.pb"


def test_several_that_match_are_an_error(tmp_path: Path) -> None:
    made(tmp_path, "a_predict_net.pb", "b_predict_net.pb")
    with pytest.raises(NetFormatError, match=r"several predict nets: a_predict_net.pb, b_predict_net.pb"):
        predict_net_in(tmp_path)


def test_hidden_files_are_left_out(tmp_path: Path) -> None:
    made(tmp_path, ".a.pb", "b.pb")
    assert files_in(tmp_path) == [tmp_path / "b.pb"]


def test_the_closest_name_comes_first() -> None:
    assert init_net_stems("x_predict-net_2") == [
        "x_init-net_2", "x_init_2", "x_predict-net_2_init_net", "x_predict-net_2_init"
    ]  # fmt: skip


def test_a_missing_package_is_named_with_its_extra() -> None:
    assert required("json", "numbers").__name__ == "json"
    with pytest.raises(BridgeError, match=r"databases require the package no_such_package: pip install .*\[db\]"):
        required("no_such_package.inner", "databases")
