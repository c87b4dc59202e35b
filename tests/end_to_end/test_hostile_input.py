"""Files and names that are not what they should be, through every command that reads or writes them."""

from __future__ import annotations

import os
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from caffe2_backend import Workspace, to_netdef
from caffe2_backend.databases import DatabaseError, Mode, create_database
from caffe2_bridge import BridgeError, Model, NetFormatError, load, save
from caffe2_bridge.devices.placement.profile import Profile
from caffe2_bridge.files import FORMATS
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef, TensorProto
from caffe2_cli.commands import main
from caffe2_frontend import check, save_onnx, to_onnx

NAMES = [
    "", " ", ".", "..", "../../x", "/proc/none/x", "a/b", "a" * 5000, "\x1b[31m", "\n", "\t", "\x00", "\u202e",
    "\u00e9", "'", '"', "{", "}", "x:0", "%s", "{}", "op { " * 50, "CON",
]  # fmt: skip


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fail where a call takes longer, such as one that waits for the writer of a pipe."""

    def expired(*_: object) -> None:
        raise AssertionError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def command(*words: object) -> Result:
    with within(20):
        result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "internal-error" not in result.output
    return result


def model(blob: str = "y", weight: str = "w") -> Model:
    fill = OperatorDef(type="GivenTensorFill", output=[weight])
    fill.arg.extend([Argument(name="shape", ints=[2]), Argument(name="values", floats=[1, 2])])
    op = OperatorDef(type="Add", input=["x", weight], output=[blob])
    net = NetDef(name="n", op=[op], external_input=["x", weight], external_output=[blob])
    return Model.of(net, NetDef(name="i", op=[fill]))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save(model(), tmp_path / "saved", "pb")
    return tmp_path / "saved"


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


READERS = [
    ("check",), ("show",), ("export", "-o", "OUT"), ("import", "-o", "OUT"), ("run", "-o", "OUT"),
    ("validate", "--against", "onnxruntime-cpu"), ("profile", "-o", "OUT"), ("convert", "OUT"), ("train", "-o", "OUT"),
]  # fmt: skip


@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
@pytest.mark.parametrize("kind", ["pipe", "zero", "null", "loop", "model is a pipe"])
def test_pipes_and_devices_as_models(words: tuple[str, ...], kind: str, tmp_path: Path, fifo: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    folder = tmp_path / "folder"
    folder.mkdir()
    os.mkfifo(folder / "predict_net.pb")
    path = {"pipe": fifo, "zero": "/dev/zero", "null": "/dev/null", "loop": loop, "model is a pipe": folder}[kind]
    name, *rest = (word.replace("OUT", str(tmp_path / "out")) for word in words)
    assert command(name, path, *rest).exit_code in {1, 2}
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [("export", "-o"), ("run", "-o"), ("profile", "-o")], ids=lambda words: words[0])
def test_pipes_as_outputs_are_not_replaced(words: tuple[str, ...], saved: Path, fifo: Path) -> None:
    name, *rest = words
    extra = () if name == "export" else ("--runs", "1") if name == "profile" else ()
    shape = ("--input", "x=float32[2]") if name == "export" else ()
    assert command(name, saved, *rest, fifo, *extra, *shape).exit_code in {1, 2}
    assert stat.S_ISFIFO(fifo.stat().st_mode)


@pytest.mark.parametrize("format_", FORMATS)
def test_saves_do_not_replace_pipes(format_: str, fifo: Path) -> None:
    with within(20), pytest.raises((BridgeError, OSError)):
        save(model(), fifo, format_)
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_onnx_files_do_not_replace_pipes(fifo: Path) -> None:
    exported = to_onnx(model(), inputs={"x": ("float32", ["N", 2])})
    with within(20), pytest.raises(OSError, match="regular file"):
        save_onnx(exported, fifo)
    assert stat.S_ISFIFO(fifo.stat().st_mode)


@pytest.fixture(params=["pipe", "socket", "device"])
def special(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """What is neither a file nor a folder; a device is behind a link, which a fault would replace instead of it."""
    path = tmp_path / "special"
    if request.param == "device":
        path.symlink_to("/dev/zero")
        yield path
    elif request.param == "pipe":
        os.mkfifo(path)
        yield path
    else:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(os.path.relpath(path))  # the address has 107 characters at most
            yield path
    assert not stat.S_ISREG(path.stat().st_mode)


@pytest.mark.parametrize(
    "words",
    [
        ("run", "SAVED", "--inputs", "SPECIAL", "-o", "OUT"), ("profile", "SAVED", "--inputs", "SPECIAL", "-o", "OUT"),
        ("train", "SAVED", "--inputs", "SPECIAL", "-o", "OUT", "--steps", "1"),
        ("validate", "SAVED", "--other", "SPECIAL", "--against", "onnxruntime-cpu"),
        ("check", "SAVED", "--init", "SPECIAL"), ("batch", "SPECIAL", "-o", "OUT"),
        ("batch", "trends", "SPECIAL", "SPECIAL"), ("import", "SPECIAL", "-o", "OUT"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_special_files_as_inputs(words: tuple[str, ...], saved: Path, special: Path, tmp_path: Path) -> None:
    paths = {"SAVED": saved, "SPECIAL": special, "OUT": tmp_path / "out"}
    assert command(*(paths.get(word, word) for word in words)).exit_code in {1, 2}
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("export", "SAVED", "-o", "SPECIAL", "--input", "x=float32[2]"), ("convert", "SAVED", "SPECIAL"),
        ("run", "SAVED", "-o", "SPECIAL", "--input", "x=float32[2]"), ("import", "MODEL", "-o", "SPECIAL"),
        ("validate", "SAVED", "--input", "x=float32[2]", "--against", "onnxruntime-cpu", "--report", "SPECIAL"),
        ("batch", "MODELS", "-o", "SPECIAL", "--against", "onnxruntime-cpu"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_special_files_as_outputs(words: tuple[str, ...], saved: Path, special: Path, tmp_path: Path) -> None:
    model_file = tmp_path / "models" / "model.onnx"
    model_file.parent.mkdir()
    save_onnx(to_onnx(model(), inputs={"x": ("float32", ["N", 2])}), model_file)
    paths = {"SAVED": saved, "SPECIAL": special, "MODEL": model_file, "MODELS": model_file.parent}
    assert command(*(paths.get(word, word) for word in words)).exit_code in {1, 2}


def entries_of(form: str) -> tuple[str, ...]:
    """Return the files of a database that a format has in a folder; empty for one that is a file."""
    return {"lmdb": ("data.mdb",), "leveldb": ("CURRENT", "MANIFEST-000001", "000002.log", "000003.ldb")}.get(form, ())


def use_database(form: str, path: Path, mode: Mode) -> None:
    """Read all records of a database, or add one."""
    database = create_database(form, path, mode)
    if mode is Mode.READ:
        list(database.cursor().records())
        return
    transaction = database.transaction()
    transaction.put(b"key", TensorProto(name="key").SerializeToString())
    transaction.commit()
    database.close()


@pytest.mark.parametrize("form", ["minidb", "protodb", "lmdb", "leveldb"])
@pytest.mark.parametrize("mode", Mode)
def test_special_files_as_databases(form: str, mode: Mode, special: Path, tmp_path: Path) -> None:
    paths = [special]
    for name in entries_of(form):
        folder = tmp_path / name
        folder.mkdir()
        for other in entries_of(form):
            (folder / other).write_bytes(b"MANIFEST-000001\n")
        (folder / name).unlink()
        (folder / name).symlink_to(special)
        paths.append(folder)
    for path in paths:
        with within(20), pytest.raises(DatabaseError):
            use_database(form, path, mode)


@pytest.mark.parametrize("op_type", ["Save", "Load", "CreateTextFileReader"])
def test_special_files_in_nets(op_type: str, special: Path) -> None:
    workspace = Workspace()
    workspace.feed("x", np.zeros(2, np.float32))
    for form in ("minidb", "protodb", "lmdb", "leveldb"):
        text = {"db": str(special), "db_type": form, "filename": str(special)}
        op = OperatorDef(type=op_type, arg=[Argument(name=name, s=value.encode()) for name, value in text.items()])
        op.arg.extend([Argument(name="absolute_path", i=1), Argument(name="field_types", ints=[1])])
        (op.input if op_type == "Save" else op.output).append("x")
        with within(20), pytest.raises(BridgeError):
            workspace.run_operator_once(op)


def test_special_files_as_profiles(special: Path) -> None:
    with within(20), pytest.raises(NetFormatError):
        Profile.read(special)


def test_pipes_as_arrays(saved: Path, fifo: Path, tmp_path: Path) -> None:
    result = command("run", saved, "--inputs", fifo, "-o", tmp_path / "out.npz")
    assert result.exit_code in {1, 2}
    assert "regular file" in result.output


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:12]))
@pytest.mark.parametrize("place", ["output", "weight"])
def test_names(name: str, place: str, tmp_path: Path) -> None:
    named = model(blob=name) if place == "output" else model(weight=name)
    outside = {path.name for path in tmp_path.parent.iterdir()}
    for format_ in FORMATS:
        target = tmp_path / "models" / format_
        target.parent.mkdir(exist_ok=True)
        try:
            save(named, target, format_)
            found = load(target)
        except BridgeError:
            continue
        assert name in {*found.predict_net.op[0].input, *found.predict_net.op[0].output}
    given = {"x": ("float32", ["N", 2])}
    check(named, inputs=given).to_json()
    try:
        exported = to_onnx(named, inputs=given)
        to_netdef(exported)
        workspace = Workspace()
        workspace.feed("x", np.zeros(2, np.float32))
        workspace.run_net_once(named.init_net)
        workspace.run_net_once(named.predict_net)
    except BridgeError:
        pass
    printed = command("show", tmp_path / "models" / "pb").output + command("check", tmp_path / "models" / "pb").output
    assert not {char for char in printed if (ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0}
    assert {path.name for path in tmp_path.parent.iterdir()} == outside


@pytest.mark.parametrize("text", [b"op {" * 300, b"{" * 5000, b"op {", b'op { type: "', b"\xff", b"<" * 200])
def test_step_nets_of_damaged_text(text: bytes, tmp_path: Path) -> None:
    op = OperatorDef(type="RecurrentNetwork", input=["x"], output=["y", "z"])
    op.arg.add(name="step_net", s=text)
    net = NetDef(name="n", op=[op], external_input=["x"], external_output=["y"])
    (tmp_path / "predict_net.pb").write_bytes(net.SerializeToString())
    assert command("check", tmp_path).exit_code == 1
    assert command("export", tmp_path, "-o", tmp_path / "out.onnx").exit_code == 1


def test_damaged_weights() -> None:
    fill = OperatorDef(type="GivenTensorFill", output=["w"])
    fill.arg.extend([Argument(name="shape", ints=[2]), Argument(name="values", floats=[1, 2])])
    init = NetDef(name="i", op=[fill]).SerializeToString()
    for at in range(len(init)):
        for byte in (0x00, 0x7F, 0xFF):
            damaged = init[:at] + bytes([byte]) + init[at + 1 :]
            try:
                to_onnx(model().predict_net, damaged, inputs={"x": ("float32", [2])})
            except BridgeError:
                continue
    with pytest.raises(NetFormatError):
        to_onnx(model().predict_net, init[:-1], inputs={"x": ("float32", [2])})


@pytest.mark.parametrize("data", [b"\xff", b"\xc3\x28", b"a\x80"])
def test_names_that_are_not_text(data: bytes, tmp_path: Path) -> None:
    for serialized in (
        NetDef(name="n", op=[OperatorDef(type="Relu", input=["@@"], output=["y"])]).SerializeToString(),
        NetDef(name="@@", op=[OperatorDef(type="Relu", input=["x"], output=["y"])]).SerializeToString(),
    ):
        damaged = serialized.replace(b"\x02@@", bytes([2]) + data.ljust(2, b"\xff"))
        (tmp_path / "predict_net.pb").write_bytes(damaged)
        with pytest.raises(NetFormatError, match="not UTF-8 text"):
            load(tmp_path)


def test_print_writes_inside_of_the_root_folder(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    for name, expected in (("/a", "root/a.log"), ("../b", ""), ("b/../../c", ""), ("d\0", "")):
        workspace = Workspace()
        workspace.root_folder = str(tmp_path / "root")
        workspace.feed(name, np.zeros(2, np.float32))
        op = OperatorDef(type="Print", input=[name], arg=[Argument(name="to_file", i=1)])
        if expected:
            workspace.run_operator_once(op)
            assert (tmp_path / expected).is_file()
        else:
            with pytest.raises(BridgeError):
                workspace.run_operator_once(op)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.log", "root"]


def test_views_of_databases_that_killed_processes_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("plyvel")
    save(model(), tmp_path / "db", "leveldb")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    process = os.fork()
    if not process:
        found = load(tmp_path / "db")
        os.kill(os.getpid(), signal.SIGKILL if len(found.init.parameters) == 1 else signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
    (left,) = temporary.iterdir()
    assert stat.S_IMODE(left.stat().st_mode) == 0o700
    found = load(tmp_path / "db")
    assert left not in temporary.iterdir()
    assert found.params is not None
    assert found.params["w"].tolist() == [1, 2]


def test_a_reader_does_not_find_the_weights_of_a_later_model(tmp_path: Path) -> None:
    exported = to_onnx(model(), inputs={"x": ("float32", ["N", 2])})
    path = tmp_path / "model.onnx"
    names = [save_onnx(exported, path, external_data=4)[1].name for _ in range(11)]
    assert names[:3] == ["model.onnx.data", "model.onnx.2.data", "model.onnx.3.data"]
    assert names[8:] == ["model.onnx.9.data", "model.onnx.data", "model.onnx.2.data"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["model.onnx", "model.onnx.2.data"]
