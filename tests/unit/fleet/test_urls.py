"""Models, manifests and results by URL; a store in memory, so that the model processes are in this one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from support.paths import MODELS

from caffe2_backend import ValidationOptions
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.storage import AnyPath, locate
from caffe2_fleet import discover_manifest, read_manifest, run_batch
from caffe2_fleet.process import pool
from caffe2_fleet.process.server import answer_anything

pytest.importorskip("fsspec")

OPTIONS = ValidationOptions(runtimes=("workspace", "onnxruntime-cpu"))
ran: list[str] = []


class InProcess:
    """A model process that is this one."""

    memory = 0

    def ask(self, request: Mapping[str, Any], seconds: float, memory: int | None = None) -> dict[str, Any]:
        del seconds, memory
        ran.append(json.loads(request["task"])["name"])
        found: dict[str, Any] = json.loads(json.dumps(answer_anything(dict(request))))
        return found

    def kill(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def zoo(monkeypatch: pytest.MonkeyPatch) -> Iterator[AnyPath]:
    import fsspec

    monkeypatch.setattr(pool, "ModelProcess", InProcess)
    ran.clear()
    folder = locate("memory://zoo_of_urls")
    for name in ("predict_net.pb", "init_net.pb"):
        (folder / "deep" / "lstm" / name).write_bytes((MODELS / "lstm" / name).read_bytes())
    (folder / "broken.pb").write_bytes(b"\xff\xff")
    yield folder
    store = fsspec.filesystem("memory")
    for root in ("/zoo_of_urls", "/out_of_urls"):
        if store.exists(root):
            store.rm(root, recursive=True)


def test_a_batch_by_url(zoo: AnyPath) -> None:
    out = locate("memory://out_of_urls")
    found = run_batch(zoo, out, OPTIONS)
    assert [(r.model, r.verdict, r.reason) for r in found.results] == [("deep/lstm", "agree", "")]
    assert [file.path for file in found.skipped] == ["broken.pb", "deep/lstm/init_net.pb"]
    for name in ("onnx/deep/lstm.onnx", "pages/deep/lstm.html", "index.html", "causes.html", "fleet.lock"):
        assert (out / name).is_file(), name
    assert json.loads((out / "summary.json").read_text())["counts"]["agree"] == 1
    assert run_batch(zoo, out, OPTIONS).results == found.results
    assert ran == ["deep/lstm"]
    init = (zoo / "deep" / "lstm" / "init_net.pb").read_bytes()
    (zoo / "deep" / "lstm" / "init_net.pb").write_bytes(init + b"\x0a\x01n")
    run_batch(zoo, out, OPTIONS)
    assert ran == ["deep/lstm"] * 2


def test_a_manifest_by_url(zoo: AnyPath) -> None:
    manifest = zoo / "models.toml"
    discover_manifest(zoo, manifest)
    assert 'path = "deep/lstm"' in manifest.read_text()
    (task,) = read_manifest(manifest)
    assert (task.name, task.path) == ("deep/lstm", "memory://zoo_of_urls/deep/lstm")
    manifest.write_text('[[model]]\npath = "https://host.invalid/net.pb"')
    assert read_manifest(manifest)[0].path == "https://host.invalid/net.pb"
    manifest.write_text('[[model]]\npath = "../secret/net.pb"')
    with pytest.raises(OptionError, match="must be in the folder of the manifest"):
        read_manifest(manifest)
