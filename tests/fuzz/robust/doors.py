"""Doors: the public functions and commands that read what the user was given."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.paths import CHAR_RNN

import caffe2_backend
from caffe2_backend import to_netdef
from caffe2_backend.databases.database import Database, Mode
from caffe2_backend.databases.registry import create_database
from caffe2_bridge import ConversionError, Diagnostic, Model, load, load_init_net
from caffe2_bridge.files import FORMATS, save
from caffe2_bridge.files.loader import load_meta, load_plan
from caffe2_cli.commands import main
from caffe2_frontend import check, save_onnx, to_onnx
from caffe2_frontend.exporter import convert
from fuzz.robust.inputs import CHECKPOINT


class UnexpectedOutputError(Exception):
    """A command printed something that it must not print, or ended with a status that it does not have."""


@dataclass(frozen=True)
class Door:
    """Something to call.

    Attributes:
        call: is given the path of the input, and an empty folder to write to.
        runs: whether it computes what the model asks for, so that its memory follows the model and not the file.
        weight: how often it is called, in comparison with others.
    """

    call: Callable[[Path, Path], object]
    runs: bool = False
    weight: int = 1


# What commands print to and read from. Click keeps every stream that it ever wrote to, so it is the same one for all.
_PRINTED: Final = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", newline="\n")
_NOTHING: Final = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")


@contextmanager
def _terminal() -> Iterator[io.BytesIO]:
    """What is printed meanwhile; nothing is typed."""
    buffer = _PRINTED.buffer
    assert isinstance(buffer, io.BytesIO)
    _PRINTED.seek(0)
    buffer.truncate(0)
    before, sys.stdin = sys.stdin, _NOTHING
    try:
        with redirect_stdout(_PRINTED), redirect_stderr(_PRINTED):
            yield buffer
    finally:
        sys.stdin = before


def _run(words: list[str]) -> tuple[int, str]:
    """Run a command; its exit status, and what it printed."""
    status: object = 0
    with _terminal() as printed:
        try:
            main.main(words, prog_name="caffe2-bridge")
        except SystemExit as ended:
            status = ended.code
        _PRINTED.flush()
        text = printed.getvalue().decode()
    return status if isinstance(status, int) else int(status is not None), text


def _command(*words: str) -> Callable[[Path, Path], None]:
    """Run a command; ``MODEL`` and ``OUT`` stand for the paths, ``OUT`` with what follows it as a name.

    ``INIT`` stands for the checkpoint beside the model.
    """

    def call(path: Path, out: Path) -> None:
        paths = {"MODEL": str(path), "INIT": str(path.with_name(CHECKPOINT))}
        texts = [paths.get(word) or word.replace("OUT", str(out)) for word in words]
        status, printed = _run(texts)
        before, reported, _ = printed.partition("[internal-error]")
        if reported:  # of any number of lines
            start = "internal error at "
            raise ConversionError([Diagnostic("internal-error", start + before.rpartition(start)[2].strip())])
        if status not in {0, 1, 2}:
            raise UnexpectedOutputError(f"exit status {status}")
        _check_printed(printed)

    return call


def _check_printed(text: str) -> None:
    found = {char for char in text if (ord(char) < 32 and char not in "\n\t\r") or 0x7F <= ord(char) < 0xA0}
    if found:
        raise UnexpectedOutputError(f"control characters {sorted(found)} in the output")


def _model(path: Path) -> Model:
    return load(path)


_LARGE: Final = 1 << 20  # elements


def _read(path: Path, _: Path) -> None:
    _read_all(load(path))


def _read_checkpoint(path: Path, _: Path) -> None:
    load_init_net(path.with_name(CHECKPOINT), optimizer_state=True)
    _read_all(load(path, path.with_name(CHECKPOINT)))


def _read_all(model: Model) -> None:
    for parameter in model.init.parameters.values():
        if parameter.size < _LARGE:  # a fill of any size takes a few bytes, and is as large as it says when it is read
            parameter.load()
    assert model.params is not None
    assert model.init_net is not None


def _bytes(path: Path, _: Path) -> None:
    init = path.with_name("init_net.pb")
    to_onnx(path.read_bytes(), init.read_bytes() if init.exists() else None)


def _export(path: Path, out: Path) -> None:
    save_onnx(convert(load(path)), out / "model.onnx", external_data=100)


def _check(path: Path, _: Path) -> None:
    check(load(path)).to_json()


def _save(layout: str) -> Callable[[Path, Path], None]:
    def call(path: Path, out: Path) -> None:
        save(load(path), out / "saved", layout)

    return call


def _workspace(path: Path, _: Path) -> None:
    from caffe2_backend import Workspace

    model = load(path)
    workspace = Workspace()
    workspace.run_net_once(model.init_net)
    workspace.run_net(workspace.create_net(model.predict_net))


def _predictor(path: Path, _: Path) -> None:
    from caffe2_backend import Predictor

    given: Any = str(path) if path.suffix == ".onnx" else load(path)
    Predictor(given).run({})


def _validate(path: Path, _: Path) -> None:
    caffe2_backend.validate(str(path), runtimes=["onnxruntime-cpu", "onnx-reference"])


def _import(**options: Any) -> Callable[[Path, Path], None]:
    def call(path: Path, _: Path) -> None:
        _use(to_netdef(path, **options))

    return call


def _import_bytes(path: Path, _: Path) -> None:
    _use(to_netdef(path.read_bytes()))


def _round_trip(path: Path, _: Path) -> None:
    to_onnx(to_netdef(path))


def _use(model: Model) -> None:
    b"".join(bytes(part) for part in model.init.serialized())


def _prepare(path: Path, _: Path) -> None:
    import onnx

    try:
        proto = onnx.ModelProto.FromString(path.read_bytes())
    except Exception:  # noqa: BLE001 - protobuf's own call, before the door
        return
    caffe2_backend.prepare(proto)


_NET_COMMANDS: Final = {
    "check command": Door(_command("check", "MODEL", "--json"), weight=2),
    "show command": Door(_command("show", "MODEL"), weight=3),
    "export command": Door(_command("export", "MODEL", "-o", "OUT/model.onnx"), weight=3),
    "run command": Door(_command("run", "MODEL", "-o", "OUT/out.npz"), runs=True),
    "validate command": Door(
        _command("validate", "MODEL", "--against", "onnxruntime-cpu", "--against", "onnx-reference"), runs=True
    ),
    "profile command": Door(_command("profile", "MODEL", "-o", "OUT/profile.json", "--runs", "1"), runs=True),
}
_NET: Final = {
    "load": Door(_read, weight=4),
    "check": Door(_check, weight=6),
    "to_onnx": Door(_export, weight=12),
    "Workspace": Door(_workspace, runs=True, weight=4),
    "Predictor": Door(_predictor, runs=True),
    **{f"save {layout}": Door(_save(layout)) for layout in FORMATS},
    **_NET_COMMANDS,
}


def _database(kind: str) -> Mapping[str, Door]:
    def open_database(path: Path, mode: Mode) -> Database:
        return create_database(kind, path.parent if path.name == "data.mdb" else path, mode)

    def read(path: Path, _: Path) -> None:
        cursor = open_database(path, Mode.READ).cursor()
        keys = [key for key, _ in cursor.records()]
        for key in (b"", b"w", *keys[-1:]) if cursor.supports_seek else ():
            cursor.seek(key)
            next(cursor.records(), None)

    def append(path: Path, out: Path) -> None:
        copy = Path(shutil.copytree(path.parent, out / "copy"), path.name)
        database = open_database(copy, Mode.WRITE)
        transaction = database.transaction()
        transaction.put(b"key", b"value")
        transaction.commit()
        database.close()
        read(copy, out)

    return {
        "load": Door(_read, weight=4),
        "load_meta": Door(lambda path, _: load_meta(path), weight=2),
        "to_onnx": Door(_export),
        "show command": Door(_command("show", "MODEL")),
        "cursor": Door(read, weight=3),
        "append": Door(append),
    }


DOORS: Final[Mapping[str, Mapping[str, Door]]] = {
    "net": {
        **_NET,
        "to_onnx of bytes": Door(_bytes, weight=3),
        "load_init_net": Door(lambda path, _: load_init_net(path.with_name("init_net.pb")), weight=2),
        "train command": Door(_command("train", "MODEL", "-o", "OUT/trained", "--steps", "1"), runs=True),
    },
    "text": {
        "load": Door(_read, weight=4),
        "check": Door(_check),
        "to_onnx": Door(_export),
        "show command": Door(_command("show", "MODEL")),
    },
    "plan": {
        "load": Door(_read, weight=4),
        "load_plan": Door(lambda path, _: load_plan(path)),
        "check": Door(_check, weight=3),
        "to_onnx": Door(_export, weight=3),
        "show command": Door(_command("show", "MODEL")),
    },
    **{kind: _database(kind) for kind in ("minidb", "lmdb", "leveldb")},
    "onnx": {
        "to_netdef": Door(_import(), weight=14),
        "to_netdef carry": Door(_import(foreign="carry"), weight=6),
        "to_netdef of bytes": Door(_import_bytes, weight=2),
        "round trip": Door(_round_trip, weight=4),
        "prepare": Door(_prepare, runs=True, weight=2),
        "Predictor": Door(_predictor, runs=True, weight=2),
        "validate": Door(_validate, runs=True),
        "import command": Door(_command("import", "MODEL", "-o", "OUT/imported"), weight=2),
        "show command": Door(_command("show", "MODEL"), weight=2),
        "run command": Door(_command("run", "MODEL", "-o", "OUT/out.npz"), runs=True),
        "validate command": Door(_command("validate", "MODEL", "--against", "onnxruntime-cpu"), runs=True),
    },
    "npz": {
        "run command": Door(
            _command("run", str(CHAR_RNN), "--inputs", "MODEL", "-o", "OUT/out.npz", "--device", "cpu"), weight=3
        ),
        "validate command": Door(
            _command("validate", str(CHAR_RNN), "--inputs", "MODEL", "--against", "onnxruntime-cpu")
        ),
        "profile command": Door(
            _command("profile", str(CHAR_RNN), "--inputs", "MODEL", "-o", "OUT/out.json", "--runs", "1")
        ),
    },
    "pkl": {
        "load": Door(_read, weight=3),
        "checkpoint": Door(_read_checkpoint, weight=10),
        "to_onnx": Door(_export, weight=2),
        "check command": Door(_command("check", "MODEL", "--init", "INIT"), weight=3),
        "show command": Door(_command("show", "MODEL", "--init", "INIT"), weight=2),
        "show checkpoint": Door(_command("show", "INIT")),
        "convert command": Door(_command("convert", "MODEL", "OUT/saved", "--init", "INIT"), weight=2),
        "weights command": Door(_command("convert", "INIT", "-o", "OUT/weights.safetensors"), weight=4),
    },
}  # fmt: skip
