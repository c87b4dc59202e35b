"""Inputs that once broke the contract of docs/testing.md, and a few that are drawn."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from google.protobuf.message import DecodeError

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from fuzz.robust.cli import CASES, Found, main, table_of_saves
from fuzz.robust.draw import draw_case
from fuzz.robust.ending import ended_by_signals
from fuzz.robust.inputs import Input, read_input
from fuzz.robust.monitor import Monitor, Violation
from fuzz.robust.mutate_bytes import mutate_bytes
from fuzz.robust.mutate_messages import mutate_message
from fuzz.robust.outcome import Outcome, Status, unanswered
from fuzz.robust.progress import Progress
from fuzz.robust.room import Room
from fuzz.robust.seeds import Seeds
from fuzz.robust.shrink import shrink
from fuzz.robust.tally import add_to_tally
from fuzz.robust.writing import Format, disturb_saves


@pytest.fixture(scope="module")
def monitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitor]:
    # What takes seconds on an idle machine may take three times as long beside other tests: a hang takes any time.
    with Monitor(tmp_path_factory.mktemp("seeds"), seconds=30.0) as started:
        yield started


@pytest.mark.parametrize("folder", sorted(CASES.glob("*/*")), ids=lambda folder: f"{folder.parent.name} {folder.name}")
def test_inputs_that_broke_the_contract(monitor: Monitor, folder: Path) -> None:
    kind, _, _ = folder.parent.name.partition("-")
    outcome = monitor.given(read_input(kind, folder), folder.name)
    assert outcome.status in {Status.RETURNED, Status.REFUSED}, outcome


def test_a_worker_that_dies_or_hangs_is_an_outcome(tmp_path: Path) -> None:
    net = Input("net", {"predict_net.pb": NetDef(op=[OperatorDef(type="Relu")]).SerializeToString()})
    with Monitor(tmp_path, seconds=0.0) as impatient:
        assert impatient.given(net, "load").status in {Status.RETURNED, Status.HUNG}
        assert impatient._process is None or impatient._process.poll() is None
        process = impatient._started()
        process.kill()
        assert impatient._died(process).status is Status.DIED


def test_a_model_that_runs_for_long_is_no_fault() -> None:
    for place in (
        "caffe2_backend/runtime/sessions/session.py:run_list",
        "caffe2_backend/runtime/host/waiting.py:wait_for",
        "caffe2_validation/runtimes/reference/ragged_reference.py:_run_ragged",
        "caffe2_validation/runtimes/reference/corrected_reference.py:_run",
    ):
        running = unanswered(place, "computes for more than 10 s")
        assert running.status is Status.RAN_LONG
        assert not running.is_violation
    assert unanswered("caffe2_backend/importer.py:to_netdef", "computes for more than 10 s").is_violation


def test_what_a_worker_counts_outlives_it(tmp_path: Path) -> None:
    progress = Progress.create(tmp_path / "progress")
    assert progress.call().index == -1
    worker = Progress(tmp_path / "progress")
    worker.begin(7, "onnx", "prepare")
    worker.count("onnx", "prepare", Status.REFUSED)
    worker.begin(8, "net", "check")
    call = progress.call()
    assert (call.index, call.kind, call.door, call.calls) == (8, "net", "check", 2)
    assert progress.counts() == {("onnx", "prepare", Status.REFUSED): 1}


def test_a_worker_that_waits_is_an_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.robust.monitor._STARTING", 0.0)
    monkeypatch.setattr("fuzz.robust.monitor._WALL", 0.6)
    net = Input("net", {"predict_net.pb": NetDef(op=[OperatorDef(type="Relu")]).SerializeToString()})
    with Monitor(tmp_path, seconds=600) as monitor:
        assert monitor.given(net, "load").status is Status.RETURNED
        monitor._seconds = 0.0
        process = monitor._started()
        process.send_signal(signal.SIGSTOP)  # it computes nothing
        outcome = monitor._answer(process)
    assert isinstance(outcome, Outcome)
    assert (outcome.status, outcome.detail) == (Status.HUNG, "waits for more than 1 s")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_keeps_what_it_found(
    tmp_path: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Input("net", {"predict_net.pb": b"abc"})
    violation = Violation(7, "net", "check", Outcome(Status.HUNG, "a.py:f"))

    def search(*arguments: Any) -> Found:
        found, ended = Found(), arguments[-1]
        found.counts["net", "check", Status.HUNG] += 1
        found.add(violation)
        os.kill(os.getpid(), number)
        assert ended.is_set()
        return found

    monkeypatch.setattr("fuzz.robust.cli.search", search)
    monkeypatch.setattr("fuzz.robust.cli.draw_case", lambda *_: (net, "check"))
    (tmp_path / "seeds" / "net").mkdir(parents=True)
    options = {"--seeds": "seeds", "--json": "counts.json", "--keep": "kept"}
    words = [word for option, name in options.items() for word in (option, str(tmp_path / name))]
    before = signal.getsignal(number)
    result = CliRunner().invoke(main, [*words, "--kills", "9"])
    assert signal.getsignal(number) is before
    assert result.exit_code == 1, result.output
    assert "0 saves, 0 lost or mixed" in result.output
    assert json.loads((tmp_path / "counts.json").read_text()) == {
        "calls": {"net, check: hung": 1}, "faults": {"net: hung a.py:f": 1}, "saves": {},
    }  # fmt: skip
    assert (tmp_path / "kept" / f"net-{net.digest}" / "check" / "predict_net.pb").read_bytes() == b"abc"


def test_a_second_signal_ends_the_process() -> None:
    with ended_by_signals() as ended:
        os.kill(os.getpid(), signal.SIGINT)
        assert ended.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_the_table_of_saves() -> None:
    counts = Counter({("pb", "killed"): 3, ("lmdb", "killed"): 2, ("pb", "out of space"): 1})
    assert [line.split() for line in table_of_saves(counts, ["pb, killed: lost"])] == [
        ["killed", "out", "of", "space"], ["pb", "3", "1"], ["lmdb", "2", "0"],
        ["6", "saves,", "1", "lost", "or", "mixed"], ["1", "pb,", "killed:", "lost"],
    ]  # fmt: skip
    assert list(table_of_saves(Counter(), [])) == ["0 saves, 0 lost or mixed"]


def test_a_room_reports_what_is_written_outside_of_the_output() -> None:
    net = Input("net", {"predict_net.pb": b"abc"})
    with Room() as room:
        path = room.enter(net)
        (room.output / "model").mkdir()
        assert room.leave() == []
        assert path.read_bytes() == b"abc"
        assert list(room.output.iterdir()) == []
        path.write_bytes(b"changed")
        Path("stray").touch()
        Path(tempfile.mkdtemp()).joinpath("left").touch()
        names = {text.rpartition("/")[2] for text in room.leave()}
        assert names == {"predict_net.pb:3", "predict_net.pb:7", "stray:0", "left:0", *(n for n in names if "tmp" in n)}
        assert room.enter(net).read_bytes() == b"abc"
        assert room.leave() == []


def test_the_tally_of_several_runs(tmp_path: Path) -> None:
    path = tmp_path / "tally.json"
    calls = Counter({("net", "check", Status.REFUSED): 3})
    for _ in range(2):
        add_to_tally(path, calls, Counter({("pb", "killed"): 2}), Counter(["net: hung"]))
    assert json.loads(path.read_text()) == {
        "calls": {"net, check: refused": 6}, "faults": {"net: hung": 2}, "saves": {"pb: killed": 4},
    }  # fmt: skip


def test_mutations_are_reproducible_and_differ() -> None:
    net = NetDef(name="n", op=[OperatorDef(type="Relu", input=["x"], output=["y"]) for _ in range(3)])
    seen = set()
    for seed in range(200):
        first, second = NetDef(), NetDef()
        for copy in (first, second):
            copy.CopyFrom(net)
            mutate_message(copy, random.Random(seed))  # noqa: S311 - reproducible
        data = first.SerializePartialToString()
        assert data == second.SerializePartialToString()
        seen.add(data)
        assert mutate_bytes(data, random.Random(seed)) == mutate_bytes(data, random.Random(seed))  # noqa: S311 - the same
    assert len(seen) > 100


def test_kinds_without_seeds_are_not_drawn(tmp_path: Path) -> None:
    """LevelDB databases, where the package that writes them is not installed."""
    Input("net", {"predict_net.pb": NetDef(name="n").SerializeToString()}).write(tmp_path / "net" / "0000")
    assert {draw_case(Seeds(tmp_path), 0, index)[0].kind for index in range(100)} == {"net"}


def test_shrinking() -> None:
    ops = [OperatorDef(type=f"Op{index}", input=["x"] * 9, output=["y"]) for index in range(20)]
    found = Input("net", {"predict_net.pb": NetDef(name="n", op=ops).SerializeToString(), "init_net.pb": b"abc"})

    def fails(smaller: Input) -> bool:
        try:
            net = NetDef.FromString(smaller.files["predict_net.pb"])
        except DecodeError:
            return False
        return any(op.type == "Op7" for op in net.op)

    assert shrink(found, fails, 20).files == {
        "predict_net.pb": NetDef(op=[OperatorDef(type="Op7")]).SerializeToString()
    }


def test_outcomes_travel() -> None:
    outcome = Outcome(Status.ESCAPED, "a.py:f", "KeyError: 'x'")
    assert Outcome.from_json(outcome.to_json()) == outcome
    assert outcome.signature == "escaped KeyError a.py:f"
    assert outcome.is_violation


def test_a_save_that_does_not_end_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    parent = os.getpid()

    def write(_: int, path: Path) -> None:
        path.write_bytes(b"")
        if os.getpid() != parent:
            time.sleep(60)

    monkeypatch.setattr("fuzz.robust.writing._SAVING", 0.05)
    monkeypatch.setattr("fuzz.robust.writing.formats", lambda: [Format("pb", write, lambda _: 1)])
    _, faults = disturb_saves(0, 1, 1)
    assert [re.sub(r"\d+", "N", fault) for fault in faults] == [
        "pb, out of space: a save within N bytes ended with status None",
        *["pb, at the same time: saves at the same time do not end"] * 2,
    ]


@pytest.mark.slow
def test_saves_that_are_disturbed() -> None:
    counts, faults = disturb_saves(16, 8, 2018)
    assert counts.total() == 48
    assert faults == []
