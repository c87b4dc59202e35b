"""The interactive picture, used in headless Chromium: clicks, keys, search, folds, narrow screens, dark mode."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser import Browser, opened_browser
from support.paths import MODELS

from caffe2_backend import picture_html
from caffe2_bridge import Model, load
from caffe2_bridge.devices import OperatorProfile, Profile
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef, OperatorDef

APP = "document.querySelector('[data-picture]').app"
PANE = f"{APP}.panes[0]"
PANEL = "document.querySelector('.picture-panel')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with opened_browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def lstm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "lstm.html"
    path.write_text(picture_html(load(MODELS / "lstm")), encoding="utf-8")
    return path


def chain(length: int) -> Model:
    """Return blocks of three operators, each with a line that passes two of them."""
    ops = []
    for i in range(0, length, 3):
        start, one, two, end = (f"b{i}" if i else "x"), f"m{i}", f"n{i}", f"b{i + 3}"
        ops += [
            OperatorDef(type="Relu", input=[start], output=[one]),
            OperatorDef(type="Sigmoid", input=[one], output=[two]),
            OperatorDef(type="Mul", input=[start, two], output=[end]),
        ]
    return Model.of(NetDef(name="chain", op=ops[:length], external_output=[ops[length - 1].output[0]]))


def open_model(browser: Browser, path: Path, model: Model, width: int = 1440, **options: Any) -> None:
    path.write_text(picture_html(model, **options), encoding="utf-8")
    browser.open(path, width, dark=False)


def node(where: str) -> str:
    return f"{PANE}.side.nodes.find(node => {where})"


def select(browser: Browser, where: str) -> None:
    browser.js(f"{APP}.select({node(where)}, {PANE}, true)")


def at(browser: Browser, item: str) -> tuple[float, float]:
    x, y = browser.js(f"{PANE}.place({item})")
    return x, y


def shown(browser: Browser) -> list[str]:
    return list(browser.js(f"{PANE}.scene.items.filter(i => i.node).map(i => i.node.t)"))


def test_a_click_opens_the_panel_and_links_the_export(browser: Browser, lstm: Path) -> None:
    browser.open(lstm, 1440, dark=False)
    browser.click(*at(browser, node("node.t === 'LSTMUnit'")))
    text = browser.js(f"{PANEL}.innerText")
    assert "LSTMUnit" in text.splitlines()
    assert "step_net[2] LSTMUnit" in text
    assert "In ONNX" in text
    linked = browser.js(f"[...{APP}.panes[1].linked].map(node => node.location)")
    assert set(linked) == {"lstm[1] RecurrentNetwork > step_net[2] LSTMUnit"}
    assert browser.js(f"{PANE}.selected.t") == "LSTMUnit"
    weights = "[...document.querySelectorAll('.picture-weight')]"
    assert browser.js(f"{PANE}.sees({PANE}.selected)")  # beside the panel
    select(browser, "node.t === 'FC' && node.net.owner")
    assert browser.js(f"{weights}.map(each => each.querySelector('b').textContent)") == [
        "rnn/gates_t_w",
        "rnn/gates_t_b",
    ]
    assert browser.js(f"{weights}.every(each => each.querySelector('canvas').getAttribute('aria-label'))")
    browser.js(f"[...{PANEL}.querySelectorAll('.picture-link')].find(link => link.textContent === 'Sum').click()")
    assert browser.js(f"{PANE}.selected.t") == "Sum"
    browser.js("document.querySelector('.picture-close').click()")
    assert browser.js(f"{PANEL}.hidden")


def test_step_nets_fold_and_unfold(browser: Browser, lstm: Path) -> None:
    browser.open(lstm, 1440, dark=False)
    operator = node("node.bodies")
    assert "LSTMUnit" in shown(browser)
    corner = f"(([x, y], i) => [x - (i.w / 2 - 12) * {PANE}.view.k, y])({PANE}.place({operator}), "
    x, y = browser.js(f"{corner}{PANE}.places.get({operator}))")
    browser.click(x, y)  # the minus sign
    assert "LSTMUnit" not in shown(browser)
    browser.click(*at(browser, operator), count=2)
    assert "LSTMUnit" in shown(browser)
    browser.js(f"{PANE}.canvas.focus()")
    browser.key("Enter")
    assert "LSTMUnit" not in shown(browser)
    browser.js("[...document.querySelectorAll('button')].find(b => b.textContent === 'Unfold').click()")
    assert "LSTMUnit" in shown(browser)


def test_the_search_goes_into_what_is_folded(browser: Browser, lstm: Path) -> None:
    browser.open(lstm, 1440, dark=False)
    browser.js("[...document.querySelectorAll('button')].find(b => b.textContent === 'Fold').click()")
    browser.js(f"{PANE}.canvas.focus()")
    browser.key("/")
    assert browser.js("document.activeElement.type") == "search"
    browser.call("Input.insertText", text="cell_state lstmunit")
    assert browser.js("document.querySelectorAll('.picture-results button').length") == 2  # and one in the export
    browser.key("Enter")
    assert browser.js(f"{PANE}.selected.t") == "LSTMUnit"
    assert "LSTMUnit" in shown(browser)
    assert browser.js(f"{PANE}.sees({PANE}.selected)")
    browser.key("Escape")
    assert browser.js("document.querySelector('.picture-results').hidden")


def test_pointer_wheel_and_keys_move_the_view(browser: Browser, tmp_path: Path) -> None:
    open_model(browser, tmp_path / "c.html", chain(30))
    view = f"({PANE}.drawNow(), {{...{PANE}.view}})"
    before = browser.js(view)
    browser.drag((300, 700), (360, 620))
    after = browser.js(view)
    assert after["x"] == pytest.approx(before["x"] - 60 / before["k"], abs=1)
    assert after["y"] == pytest.approx(before["y"] + 80 / before["k"], abs=1)
    browser.call("Input.dispatchMouseEvent", type="mouseWheel", x=300, y=400, deltaX=0, deltaY=-200)
    browser.wait(f"{PANE}.view.k > {after['k']}")
    browser.js(f"{PANE}.canvas.focus()")
    browser.key("0")
    assert browser.js(view)["k"] <= 1.25
    select(browser, "node.t === 'x'")
    for key, wanted in (("ArrowDown", "Relu"), ("ArrowRight", "Mul"), ("ArrowLeft", "Relu"), ("ArrowUp", "x")):
        browser.key(key)
        assert browser.js(f"{PANE}.selected.t") == wanted
    assert browser.js("document.querySelector('.picture-status').textContent").startswith("x")
    browser.key("Escape")
    assert browser.js(f"{PANE}.selected") is None


def test_large_nets_open_folded(browser: Browser, tmp_path: Path) -> None:
    open_model(browser, tmp_path / "large.html", chain(4500))
    browser.wait(f"!{PANE}.scene.partial")
    segments = browser.js(f"{PANE}.scene.items.filter(item => item.segment).length")
    assert 40 < segments < 150
    assert browser.js(f"{PANE}.scene.items.length") == segments
    # A click opens one; the search opens another.
    x, y = browser.js(f"{PANE}.place({PANE}.side.net.segments[0])")
    browser.click(x, y)
    assert 20 < len(shown(browser)) < 120
    browser.js(f"{APP}.search.value = 'b4500'; {APP}.find(); {APP}.choose(0)")
    assert browser.js(f"{PANE}.selected.t") == "Mul"
    assert browser.js(f"{PANE}.places.has({PANE}.selected)")
    browser.js(f"{PANE}.canvas.focus()")
    browser.key("f")
    assert not browser.js(f"{PANE}.places.has({PANE}.selected)")


def test_what_is_in_view_is_drawn_at_once_and_all_of_it_soon(browser: Browser, tmp_path: Path) -> None:
    open_model(browser, tmp_path / "2000.html", chain(2000))
    assert browser.js(f"{PANE}.scene.items.length") > 20
    browser.wait(f"!{PANE}.scene.partial")
    assert len(shown(browser)) == 2002
    browser.js(f"{PANE}.fit()")
    assert browser.js(f"({PANE}.drawNow(), {PANE}.shown)") == 2002
    lines = browser.js(f"{PANE}.scene.lines.every(line => line.points.flat().every(Number.isFinite))")
    assert lines
    overlap = (
        f"(() => {{ const all = {PANE}.scene.items; return all.filter((a, i) => all.slice(i + 1, i + 90).some(b =>"
        " a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h)).length; })()"
    )
    assert browser.js(overlap) == 0


def test_colours(browser: Browser, tmp_path: Path) -> None:
    ops = [OperatorDef(type="Relu", input=["x"], output=["h"], device_option=DeviceOption(device_type=1))]
    model = Model.of(NetDef(name="n", op=[*ops, OperatorDef(type="Relu", input=["h"], output=["y"])]))
    profile = Profile(
        "n", "cpu", tuple(OperatorProfile(i, "Relu", "", (), (), (t,)) for i, t in enumerate((1e-3, 5e-3)))
    )
    open_model(browser, tmp_path / "c.html", model, profile=profile)
    options = browser.js(f"[...{APP}.colours.options].map(option => option.value)")
    assert options == ["time", "device", "plain"]
    legend = "document.querySelector('.picture-legend').innerText"
    assert "5 ms" in browser.js(legend)
    colours = f"{PANE}.side.nodes.filter(node => node.kind === 'operator').map(node => {APP}.colourOf(node))"
    assert len(set(browser.js(colours))) == 2
    browser.js(f"{APP}.colours.value = 'device'; {APP}.colours.dispatchEvent(new Event('change'))")
    assert {"CUDA:0", "CPU"} <= set(browser.js(legend).split())
    assert len(set(browser.js(colours))) == 2
    select(browser, "node.t === 'Relu'")
    assert "1 ms" in browser.js(f"{PANEL}.innerText")


HOSTILE = "</script><img src=x onerror=\"document.title='hacked'\">"


def test_names_are_text_and_nothing_else(browser: Browser, tmp_path: Path) -> None:
    ops = [OperatorDef(type="Relu", name=HOSTILE, input=[HOSTILE], output=[f"{HOSTILE}y"])]
    open_model(browser, tmp_path / "h.html", Model.of(NetDef(name=HOSTILE, op=ops)))
    select(browser, "node.t === 'Relu'")
    browser.js(f"{APP}.search.value = 'relu'; {APP}.find()")
    assert HOSTILE in browser.js(f"{PANEL}.innerText")
    assert browser.js("document.querySelectorAll('img').length") == 0
    assert browser.js("document.title").startswith("</script><img")
    # Scripts that are not the viewer do not run, even if one came in.
    browser.js("document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))")
    assert browser.js("window.ran") is None


def test_a_notebook_has_the_picture_in_a_frame_of_its_own(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><body id=verdict>{load(MODELS / 'lstm')._repr_html_()}", encoding="utf-8")
    browser.open(path, 1440, dark=False)
    assert "RecurrentNetwork" in browser.js("document.querySelector('table').innerText")
    browser.js("document.querySelector('summary').click()")
    assert browser.js("document.querySelector('iframe').getBoundingClientRect().height") > 400
    assert browser.js("document.querySelector('iframe').contentDocument") is None
    with browser.inside_frame("about:srcdoc"):
        browser.wait("document.querySelector('[data-ready]')")
        browser.wait(f"{PANE}.width")
        select(browser, "node.t === 'LSTMUnit'")
        assert "step_net[2] LSTMUnit" in browser.js(f"{PANEL}.innerText")
        assert browser.js("try { parent.document } catch (error) { error.name }") == "SecurityError"


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_one_side_at_a_time(browser: Browser, lstm: Path, *, dark: bool) -> None:
    browser.open(lstm, 390, dark=dark)
    assert browser.js("document.documentElement.scrollWidth") <= 390
    frames = "[...document.querySelectorAll('.picture-pane')].map(frame => !frame.hidden)"
    assert browser.js(frames) == [True, False]
    browser.js("[...document.querySelectorAll('.picture-tabs button')][1].click()")
    assert browser.js(frames) == [False, True]
    browser.js("[...document.querySelectorAll('.picture-tabs button')][0].click()")
    select(browser, "node.t === 'LSTMUnit'")
    below = f"{PANEL}.getBoundingClientRect().top >= {PANE}.canvas.getBoundingClientRect().bottom - 1"
    assert browser.js(below)
    pixel = f"[...{PANE}.canvas.getContext('2d').getImageData(2, 2, 1, 1).data].slice(0, 3)"
    browser.js(f"{PANE}.drawNow()")
    assert (max(browser.js(pixel)) < 60) == dark
    target = os.environ.get("VALIDATE_PICTURES")
    if target:
        Path(target, f"picture-{'dark' if dark else 'light'}.png").write_bytes(browser.picture())
