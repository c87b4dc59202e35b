"""The page that converts in the browser, used in headless Chromium.

Python answers from outside of the browser, by the functions that Pyodide calls in it; onnxruntime-web is the real one.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from support.browser import Browser, opened_browser
from support.converter_page import node_package, served
from support.paths import CHAR_RNN

from caffe2_bridge import load, save
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_cli.browser import convert, example

RUNTIME = node_package("onnxruntime-web", "dist")
PYODIDE = node_package("pyodide")
DONE = "document.getElementById('progress').hidden && !document.getElementById('result').hidden"
FAILED = "!document.getElementById('error').hidden"

pytestmark = pytest.mark.slow
needs_runtime = pytest.mark.skipif(RUNTIME is None, reason="onnxruntime-web is not on NODE_PATH")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened_browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    packages = {} if RUNTIME is None else {"onnxruntime": RUNTIME}
    with served(tmp_path_factory.mktemp("page") / "try", packages=packages) as found:
        yield found


@pytest.fixture
def page(browser: Browser, address: str) -> Browser:
    browser.open(address, 1440, dark=False)
    return browser


def drop(page: Browser, files: Mapping[str, bytes]) -> None:
    """Drop files on the page."""
    texts = json.dumps({name: base64.b64encode(data).decode() for name, data in files.items()})
    page.js(
        f"(() => {{ const dropped = new DataTransfer(); for (const [name, text] of Object.entries({texts}))"
        " dropped.items.add(new File([Uint8Array.from(atob(text), c => c.charCodeAt(0))], name));"
        " dispatchEvent(new DragEvent('drop', { dataTransfer: dropped, cancelable: true })) })()"
    )


def convert_in(page: Browser, files: Mapping[str, bytes]) -> None:
    page.js("for (const id of ['error', 'result']) document.getElementById(id).hidden = true")
    drop(page, files)
    page.wait(f"{DONE} || {FAILED}", 60)


def text(page: Browser, where: str) -> str:
    return str(page.js(f"document.getElementById('{where}').innerText"))


def downloads(page: Browser) -> dict[str, bytes]:
    """Return the files that the page offers."""
    found = page.js(
        "Promise.all([...document.querySelectorAll('#downloads a')].map(async link => [link.download,"
        " btoa(Array.from(new Uint8Array(await (await fetch(link.href)).arrayBuffer()), b => String.fromCharCode(b))"
        ".join(''))]))"
    )
    return {name: base64.b64decode(data) for name, data in found}


def run(page: Browser) -> str:
    page.js("document.getElementById('start').click()")
    page.wait("/Ran|not run/.test(document.getElementById('verdict').textContent)", 60)
    return text(page, "verdict")


def rows(page: Browser, table: str) -> list[list[str]]:
    cells = f"[...document.querySelectorAll('#{table} tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    return list(page.js(cells))


@needs_runtime
@pytest.mark.parametrize("name", ["lstm", "cnn"])
def test_an_example_converts_and_computes_what_onnxruntime_does(page: Browser, name: str) -> None:
    page.js(f"document.querySelector('[data-example={name}]').click()")
    page.wait(DONE, 30)
    assert "convert; covered" in text(page, "summary")
    (model,) = downloads(page).values()
    given = example(name)
    assert model == convert(given["files"])["files"][0]["data"]
    assert {row[3] for row in rows(page, "tensors")} == {"the example"}
    assert run(page).startswith("Ran on onnxruntime-web")
    ((_, sample),) = given["arrays"].items()
    with np.load(BytesIO(sample)) as arrays:
        expected = onnxruntime.InferenceSession(model).run(None, dict(arrays))[0]
    first, values = rows(page, "results")
    assert first[1:] == ["float32", f"[{', '.join(map(str, expected.shape))}]"]
    numbers = [float(number) for number in re.findall(r"[-\d.]+(?:e-?\d+)?", values[0])]
    assert numbers[:3] == pytest.approx([expected.min(), expected.mean(), expected.max()], rel=6e-3)
    assert numbers[3:9] == pytest.approx(expected.ravel()[:6], rel=6e-3)


@needs_runtime
@pytest.mark.parametrize("form", ["minidb", "pbtxt", "onnx"])
def test_files_of_every_form_convert_and_run_on_inputs_that_are_made_up(
    page: Browser, form: str, tmp_path: Path
) -> None:
    nets = {path.name: path.read_bytes() for path in CHAR_RNN.glob("*.pb")}
    if form == "onnx":
        files = {"m.onnx": convert(nets)["files"][0]["data"]}
    else:
        save(load(CHAR_RNN), tmp_path / "m", format=form)
        found = [tmp_path / "m"] if (tmp_path / "m").is_file() else [*(tmp_path / "m").iterdir()]
        files = {path.name: path.read_bytes() for path in found}
    convert_in(page, files)
    assert sorted(downloads(page)) == (["init_net.pb", "predict_net.pb"] if form == "onnx" else ["model.onnx"])
    assert {row[3] for row in rows(page, "tensors")} == {"made up"}
    assert run(page).startswith("Ran on onnxruntime-web")
    assert [row[0] for row in rows(page, "results")][::2] == [
        "softmax", "LSTM/hidden_state_last", "LSTM/cell_state_last"
    ]  # fmt: skip


@needs_runtime
def test_arrays_that_are_dropped_are_the_inputs(page: Browser) -> None:
    convert_in(page, example("cnn")["files"])
    before = rows(page, "tensors")
    page.js("document.getElementById('synthesize').click()")
    page.wait("document.querySelectorAll('#tensors tbody tr').length === 1")
    assert rows(page, "tensors") == before
    drop(page, example("cnn")["arrays"])
    page.wait("document.querySelector('#tensors tbody').innerText.includes('digits.npz')")
    assert rows(page, "tensors") == [["image", "float32", "[10, 1, 16, 16]", "file digits.npz"]]
    assert run(page).startswith("Ran on onnxruntime-web")
    buffer = BytesIO()
    np.save(buffer, np.zeros((2, 1, 9, 9), np.float32))
    drop(page, {"image.npy": buffer.getvalue()})
    page.wait("document.querySelector('#tensors tbody').innerText.includes('image.npy')")
    assert run(page).startswith("It does not run: ")
    drop(page, {"image.npy": b"no array"})
    page.wait("document.getElementById('verdict').textContent.includes('image.npy')")
    assert "not an .npy file" in text(page, "verdict")


def test_a_folder_can_be_dropped(page: Browser) -> None:
    data = {"items": [], "files": [str(CHAR_RNN)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        page.call("Input.dispatchDragEvent", type=kind, x=300, y=300, data=data)
    page.wait(f"{DONE} || {FAILED}", 60)
    assert text(page, "summary") == "8 operators convert; covered"
    assert list(downloads(page)) == ["model.onnx"]


def changed(kind: str) -> dict[str, bytes]:
    """Return the example with another type of the first operator."""
    files = example("cnn")["files"]
    net = NetDef.FromString(files["predict_net.pb"])
    net.op[0].type = kind
    return {**files, "predict_net.pb": net.SerializeToString()}


def test_findings_name_operators_and_lead_to_the_options(page: Browser) -> None:
    convert_in(page, changed("<b>My</b>"))
    assert "1 of 8 operators has no conversion" in text(page, "summary")
    assert "cnn[0] <b>My</b> operator '<b>My</b>' has no conversion [unknown-operator]" in text(page, "list")
    assert page.js("document.getElementById('options').open")
    assert page.js("document.getElementById('converted').hidden && document.getElementById('run').hidden")
    page.js("document.querySelector('#list button').click()")
    assert page.js("document.getElementById('inputs').value") == "image=float32[N,D]"
    assert page.js("document.activeElement.id") == "inputs"
    page.js("document.getElementById('inputs').value = 'image=float32[N,1,16,16]'")
    page.js("document.querySelector('#form button').click()")
    page.wait(f"{DONE} && !document.getElementById('list').innerText.includes('needs-shape')", 30)
    assert "unknown-operator" in text(page, "list")


def test_options_reach_the_conversion(page: Browser) -> None:
    convert_in(page, example("cnn")["files"])
    assert "input   image: float32[N,1,H,W]" in text(page, "lines")
    page.js("document.getElementById('inputs').value = 'image=float32[5,1,16,16]'")
    page.js("document.getElementById('outputs').value = 'relu2'")
    page.js("document.getElementById('opset').value = '17'")
    page.js("document.querySelector('#form button').click()")
    page.wait(f"{DONE} && document.getElementById('lines').innerText.includes('opset 17')", 30)
    assert text(page, "lines").splitlines()[1:] == [
        "input   image: float32[5,1,16,16]", "output  relu2: float32[5,16,4,4]"
    ]  # fmt: skip


def test_an_error_names_the_file_and_the_page_goes_on(page: Browser) -> None:
    convert_in(page, {"weights.pb": b"\1\2\3"})
    assert text(page, "reason").startswith("weights.pb: the file is neither a net")
    nets = {"one.pb": changed("Relu")["predict_net.pb"], "two.pb": example("cnn")["files"]["predict_net.pb"]}
    convert_in(page, nets)
    assert text(page, "reason") == "the folder has several nets: one.pb, two.pb; give the path of one"
    drop(page, {"x.npy": b""})
    page.wait("document.getElementById('reason').textContent.startsWith('Arrays are')")
    convert_in(page, example("cnn")["files"])
    assert not page.js(FAILED)


def test_the_picture_is_drawn_in_a_frame_that_reaches_nothing(page: Browser) -> None:
    convert_in(page, example("cnn")["files"])
    frame = "document.querySelector('iframe')"
    assert page.js(f"{frame}.sandbox.value") == "allow-scripts"
    assert page.js(f"{frame}.contentDocument") is None  # of an origin of its own
    page.wait("document.getElementById('picture').scrollIntoView() || true")
    with page.inside_frame():
        page.wait("document.querySelector('[data-picture]')?.app?.panes.length")
        assert page.js("document.title") == "cnn: 8 operators, 6 parameters (8.1 kB)"
        asked = "fetch('https://host.example/').then(() => 'sent', error => error.name)"
        assert page.js(asked) == "TypeError"
        assert page.js("self.origin") == "null"


def test_nothing_leaves_the_page_and_its_workers(page: Browser, address: str) -> None:
    elsewhere = address.replace("127.0.0.1", "localhost")
    asked = f"fetch('{elsewhere}', {{mode: 'no-cors'}}).then(() => 'sent', error => error.name)"
    assert page.js(asked) == "TypeError"
    worker = json.dumps(f"{asked}.then(postMessage)")
    assert (
        page.js(
            f"new Promise(done => {{ const worker = new Worker(URL.createObjectURL(new Blob([{worker}])));"
            " worker.onmessage = ({ data }) => done(data) })"
        )
        == "TypeError"
    )
    assert page.js(f"fetch('{address}').then(() => 'sent', error => error.name)") == "sent"
    loaded = page.js("performance.getEntriesByType('resource').map(entry => new URL(entry.name).origin)")
    assert set(loaded) <= {page.js("location.origin"), "null"}


def test_the_keyboard_suffices(page: Browser) -> None:
    found = []
    for _ in range(4):
        page.key("Tab")
        found.append(page.js("document.activeElement.id || document.activeElement.dataset.example"))
    assert found[:3] == ["files", "lstm", "cnn"]
    page.js("document.querySelector('[data-example=cnn]').focus()")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", text="\r")
    page.call("Input.dispatchKeyEvent", type="keyUp", key="Enter")
    page.wait(DONE, 30)
    assert "convert; covered" in text(page, "summary")


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_wider_than_the_screen(browser: Browser, address: str, width: int, dark: bool) -> None:
    browser.open(address, width, dark=dark)
    assert browser.js("document.documentElement.scrollWidth") <= width
    convert_in(browser, changed("Unknown"))
    convert_in(browser, example("lstm")["files"])
    browser.js("document.getElementById('options').open = true")
    assert browser.js("document.documentElement.scrollWidth") <= width
    shade = browser.js("getComputedStyle(document.documentElement).backgroundColor")
    assert (shade == "rgb(255, 255, 255)") is not dark


@pytest.mark.skipif(PYODIDE is None, reason="pyodide is not on NODE_PATH")
def test_pyodide_starts_and_what_it_cannot_load_is_named(browser: Browser, tmp_path: Path) -> None:
    """Pyodide of the npm registry has no packages: the first one that is missing ends the start."""
    assert PYODIDE is not None
    (tmp_path / "none").mkdir()
    packages = {"pyodide": PYODIDE, "packages": tmp_path / "none"}
    with served(tmp_path / "try", stand_in=False, packages=packages) as address:
        browser.open(address, 1440, dark=False)
        browser.js("document.querySelector('[data-example=cnn]').click()")
        browser.wait(f"{DONE} || {FAILED}", 120)
        assert text(browser, "reason").startswith("micropip cannot be loaded from http://127.0.0.1")
