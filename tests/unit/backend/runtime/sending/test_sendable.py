"""Predictors and sessions: what their pickles hold, and when they open where they arrive.

Modules: sendable, sources.
"""

from __future__ import annotations

import copy
import os
import pickle  # noqa: TID251 - what is tested; only what the test itself pickled is read
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.nets import net, op

from caffe2_backend import Predictor, RunError, Session, SessionOptions
from caffe2_backend.runtime.sending import sendable, sources
from caffe2_bridge import Model, NetFormatError, load, save
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import save_onnx, to_onnx

X = {"x": np.ones((3, 2), np.float32)}


def model(first: float = 2.0) -> Model:
    init = NetDef(op=[op("GivenTensorFill", "", "w", shape=[2], values=[first, 3.0])])
    return Model.of(net(op("Mul", "x w", "y"), inputs="x w"), init)


def graph(first: float = 2.0) -> onnx.ModelProto:
    return to_onnx(model(first), inputs={"x": ("float32", ["N", 2])})


@pytest.fixture(autouse=True)
def _nothing_open() -> Iterator[None]:
    sendable._forget()
    yield
    sendable._forget()


def as_received(value: Any) -> Any:
    """Return a pickled object as another process has it."""
    data = pickle.dumps(value)
    sendable._forget()
    return pickle.loads(data)  # noqa: S301 - as above


@pytest.fixture(params=["folder", "model", "onnx", "proto", "bytes", "session", "session of bytes"])
def sent(request: pytest.FixtureRequest, tmp_path: Path) -> Predictor | Session:
    save(model(), tmp_path / "m")
    save_onnx(graph(), tmp_path / "m.onnx")
    made: dict[str, Callable[[], Predictor | Session]] = {
        "folder": lambda: Predictor(tmp_path / "m"),
        "model": lambda: Predictor(model()),
        "onnx": lambda: Predictor(str(tmp_path / "m.onnx")),
        "proto": lambda: Predictor(graph()),
        "bytes": lambda: Predictor(graph().SerializeToString()),
        "session": lambda: Session(str(tmp_path / "m.onnx")),
        "session of bytes": lambda: Session(graph().SerializeToString()),
    }
    return made[request.param]()


def test_it_opens_on_first_use_and_computes_the_same(sent: Any) -> None:
    received = as_received(sent)
    assert not sendable._received
    assert "outputs" not in repr(received)
    assert received.run(X)["y"].tolist() == sent.run(X)["y"].tolist() == [[2, 3]] * 3
    assert (received.inputs, received.outputs, received.device) == (sent.inputs, sent.outputs, sent.device)
    assert repr(received).endswith(repr(sent).partition("inputs=")[2])


def test_it_can_be_sent_on_without_opening(sent: Any) -> None:
    again = as_received(as_received(sent))
    assert not sendable._received
    assert again.run(X)["y"][0].tolist() == [2, 3]


def test_a_copy_and_a_pickle_of_the_same_process_are_the_object(sent: Any) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(sent, protocol)) is sent  # noqa: S301 - as above
    assert copy.copy(sent) is sent
    assert copy.deepcopy({"a": sent})["a"] is sent


def test_all_that_arrive_share_what_is_open() -> None:
    data = pickle.dumps(Predictor(model()))
    sendable._forget()
    first, second = (pickle.loads(data) for _ in range(2))  # noqa: S301 - as above
    assert first is not second
    assert first._runner is second._runner
    assert pickle.loads(data)._runner is first._runner  # noqa: S301 - as above


def test_threads_that_need_the_first_attribute_open_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    monkeypatch.setattr(sources.NetInMemory, "given", lambda self: opened.append(1) or self.model)
    received = as_received(Predictor(model()))
    opened.clear()
    barrier, found = threading.Barrier(8), []

    def use() -> None:
        barrier.wait()
        found.append(received.run(X)["y"].tolist())

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[[2, 3]] * 3] * 8
    assert len(opened) == 1


def test_a_process_keeps_a_few_open() -> None:
    received = [as_received(Predictor(model(i))) for i in range(6)]
    for i, predictor in enumerate(received):
        assert predictor.run(X)["y"][0].tolist() == [i, 3]
    assert list(sendable._received) == [predictor._recipe.token for predictor in received[2:]]
    assert received[0].run(X)["y"][0].tolist() == [0, 3]  # who holds one goes on


def test_tools_that_ask_for_attributes_open_nothing() -> None:
    received = as_received(Predictor(model()))
    for name in ("__dask_tokenize__", "_repr_html_x", "_ipython_display_"):
        with pytest.raises(AttributeError, match=name):
            getattr(received, name)
    assert not sendable._received
    with pytest.raises(AttributeError, match="'Predictor' object has no attribute 'nothing'"):
        received.nothing  # noqa: B018 - the access is what is tested
    assert received.run(X)


def test_options_outputs_and_device_go_along(tmp_path: Path) -> None:
    save(Model.of(net(op("Relu", "x", "y"), op("Neg", "y", "z"), outputs="z")), tmp_path / "m")
    options = SessionOptions(threads=1, optimization="basic")
    received = as_received(Predictor(tmp_path / "m", "cpu", options=options, outputs=["y"]))
    assert (received.outputs, received.device) == (("y",), "cpu")
    assert received._runner._options == options
    session = as_received(Session(graph().SerializeToString(), threads=1))
    session.run(X)
    assert session._options.threads == 1


def test_a_path_leads_to_the_model_from_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(model(), tmp_path / "m")
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(Predictor("m"))
    assert len(data) < 1000  # the weights stay in the file
    sendable._forget()
    monkeypatch.chdir("/")
    assert pickle.loads(data).run(X)["y"][0].tolist() == [2, 3]  # noqa: S301 - as above


def test_another_model_at_the_path_is_an_error(tmp_path: Path) -> None:
    save(model(), tmp_path / "m")
    save_onnx(graph(), tmp_path / "m.onnx")
    received = [as_received(Predictor(tmp_path / "m")), as_received(Session(str(tmp_path / "m.onnx")))]
    save(model(5.0), tmp_path / "m")
    save_onnx(graph(5.0), tmp_path / "m.onnx")
    for each, name in zip(received, ("m", "m.onnx"), strict=True):
        for _ in range(2):  # each use says so
            with pytest.raises(
                RunError, match=rf"/{name}: this is not the model that was sent: its digest is [0-9a-f]+"
            ):
                each.run(X)
    (tmp_path / "m.onnx").unlink()
    with pytest.raises((OSError, NetFormatError), match=r"m\.onnx"):
        received[1].run(X)


def test_a_net_that_is_replaced_after_it_was_read_is_still_the_one_that_is_sent(tmp_path: Path) -> None:
    save(model(), tmp_path / "m")
    predictor = Predictor(tmp_path / "m")
    save(model(5.0), tmp_path / "m")
    with pytest.raises(RunError, match="this is not the model that was sent"):
        as_received(predictor).run(X)
    save(model(), tmp_path / "m")
    assert as_received(predictor).run(X)["y"][0].tolist() == [2, 3]


def test_a_graph_that_was_replaced_before_it_is_sent_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    save_onnx(graph(), path)
    predictor = Predictor(path)
    save_onnx(graph(5.0), path)
    with pytest.raises(RunError, match=r"m\.onnx: the file changed since it was loaded: load it again"):
        pickle.dumps(predictor)


def test_external_data_count(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    save_onnx(graph(), path, external_data=0)
    (data,) = (file for file in tmp_path.iterdir() if file != path)
    received = as_received(Predictor(path))
    data.write_bytes(bytes(len(data.read_bytes())))
    with pytest.raises(RunError, match="not the model that was sent"):
        received.run(X)


def test_models_that_are_too_large_to_go_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_LARGEST_NET", 4)
    monkeypatch.setattr(sources, "_LARGEST_GRAPH", 10)
    with pytest.raises(RunError, match=r"the model has \d+ bytes, and at most 4 are sent.*path of the model"):
        pickle.dumps(Predictor(model()))
    for made in (Predictor(graph()), Session(graph().SerializeToString())):
        assert made.run(X)["y"][0].tolist() == [2, 3]
        with pytest.raises(RunError, match=r"the ONNX model has \d+ bytes, .* write it with save_onnx"):
            pickle.dumps(made)


def test_sessions_inside_of_others_keep_no_model() -> None:
    assert Predictor(graph())._runner._session._recipe is None  # type: ignore[union-attr] # of an ONNX model
    with pytest.raises(TypeError, match="InnerSession cannot be pickled or copied"):
        pickle.dumps(Predictor(graph())._runner._session)  # type: ignore[union-attr] # as above


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")
def test_a_forked_process_opens_its_own() -> None:
    predictor = Predictor(model())
    data = pickle.dumps(predictor)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        received = pickle.loads(data)  # noqa: S301 - as above
        os.write(write, b"its own" if received is not predictor and not sendable._received else b"inherited")
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        assert said.read() == b"its own"
    assert pickle.loads(data) is predictor  # noqa: S301 - as above


def test_a_model_goes_by_value_as_before(tmp_path: Path) -> None:
    save(model(), tmp_path / "m")
    data = pickle.dumps(load(tmp_path / "m"))
    save(model(5.0), tmp_path / "m")
    assert pickle.loads(data).params["w"].tolist() == [2, 3]  # noqa: S301 - as above
