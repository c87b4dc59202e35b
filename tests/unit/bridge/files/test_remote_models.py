"""Models by URL, through the public functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.paths import ROOT
from support.storage.web_server import Site, serving

import caffe2_bridge as c2
from caffe2_bridge.builder import Net
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files import FORMATS
from caffe2_bridge.proto.caffe2_pb2 import NetDef

CHAR_RNN = ROOT / "models" / "char_rnn"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE", str(tmp_path / "cache"))
    files = {f"zoo/{file.name}": file.read_bytes() for file in CHAR_RNN.iterdir() if file.suffix == ".pb"}
    with serving(Site(files)) as found:
        yield found


def small_model() -> c2.Model:
    net = Net("small")
    net.add_external_input("x", "w", "b")
    net.op("FC", ["x", "w", "b"], "y")
    net.add_external_output("y")
    init = Net("small_init")
    init.op("GivenTensorFill", [], ["w"], shape=[3, 4], values=np.linspace(-1, 1, 12).astype(np.float32).tolist())
    init.op("ConstantFill", [], ["b"], shape=[3], value=0.5)
    return c2.Model.of(net.proto, init.proto)


def same(first: c2.Model, second: c2.Model) -> bool:
    return first.params.keys() == second.params.keys() and all(
        np.array_equal(first.params[name], second.params[name]) for name in first.params
    )


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("path", ["zoo/", "zoo/predict_net.pb"])
def test_a_pair_on_a_web_server(site: Site, path: str, lists: bool) -> None:
    site.lists = lists
    found = c2.load(f"{site.url}/{path}")
    assert found.source == f"{site.url}/zoo/predict_net.pb"
    assert same(found, c2.load(CHAR_RNN))


def test_a_model_keeps_its_parameters(site: Site) -> None:
    found = c2.load(f"{site.url}/zoo/")
    site.files["zoo/init_net.pb"] = NetDef(name="other").SerializeToString()
    assert not c2.load(f"{site.url}/zoo/").params
    assert same(found, c2.load(CHAR_RNN))


def test_messages_have_no_credentials(site: Site) -> None:
    site.files["zoo/bad.pb"] = b"\xff\xff"
    for path, reason in (("zoo/bad.pb", "neither a net"), ("zoo/none.pb", "cannot be read: the server has no such")):
        with pytest.raises(NetFormatError, match=reason) as failed:
            c2.load(f"{site.url}/{path}?sig=secret".replace("://", "://u:secret@"))
        assert "secret" not in str(failed.value)
        assert f"/{path}?sig=***" in str(failed.value)


@pytest.mark.parametrize("layout", FORMATS)
def test_every_format(layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    if layout in {"lmdb", "leveldb"}:
        pytest.importorskip("lmdb" if layout == "lmdb" else "plyvel")
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE", str(tmp_path))
    url, model = f"memory://formats/{layout}", small_model()
    for _ in range(2):  # the second replaces the first
        c2.save(model, url, layout)
        assert same(c2.load(url), model)


def test_databases_of_a_remote_net_are_read_from_its_folder_alone(site: Site, tmp_path: Path) -> None:
    c2.save(c2.load(CHAR_RNN), tmp_path / "w.minidb", "minidb")
    init = NetDef(name="init")
    load = init.op.add(type="Load", output=["LSTM/gates_t_b"])
    for name, value in (("db", "/somewhere/data/w.minidb"), ("db_type", "minidb")):
        load.arg.add(name=name, s=value.encode())
    site.files["net/predict_net.pb"] = site.files["zoo/predict_net.pb"]
    site.files["net/init_net.pb"] = init.SerializeToString()
    assert "LSTM/gates_t_b" not in c2.load(f"{site.url}/net/").params
    site.files["net/data/w.minidb"] = (tmp_path / "w.minidb").read_bytes()
    assert "LSTM/gates_t_b" in c2.load(f"{site.url}/net/").params
    for place in (str(tmp_path / "w.minidb"), f"{site.url}/net/data/../../other/w.minidb", "../data/w.minidb?x"):
        load.arg[0].s = place.encode()
        site.files["net/init_net.pb"] = init.SerializeToString()
        site.files["other/w.minidb"] = site.files["net/data/w.minidb"]
        site.requests.clear()
        c2.load(f"{site.url}/net/")
        assert all(path.startswith("net/") for path, _ in site.requests)
