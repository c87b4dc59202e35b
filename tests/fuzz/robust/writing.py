"""Saves that are killed, run out of space, or run at the same time: a reader finds one whole model, always."""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper
from support.formats import writable_formats

from caffe2_backend.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from caffe2_bridge import BridgeError, Model, load, save
from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import save_onnx, to_onnx

_VARIANTS: Final = 3
_WEIGHTS: Final = 40_000
# What a process asks the system for while it saves, as Python's audit events.
_EVENTS: Final = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "fcntl.flock"})
_MOST_EVENTS: Final = 60
_LONGEST: Final = 0.1  # seconds until a process is killed
_SAVING: Final = 60.0  # seconds that the saves of a process may take
_POLL: Final = 0.001
_KILLED, _TWICE, _FAILED, _RACED = "killed", "two in a row", "out of space", "at the same time"


class BrokenModelError(Exception):
    """What was read is not one of the models that were written."""


class Format:
    """A format: how variants of a model, which differ in their net and in their weights, are written and read."""

    def __init__(self, name: str, write: Callable[[int, Path], None], read: Callable[[Path], int]) -> None:
        self.name = name
        self.write = write
        self.read = read


def _model(variant: int) -> Model:
    op = OperatorDef(type="FC", input=["x", "w", "b"], output=["y"])
    net = NetDef(name=f"variant{variant}", op=[op], external_input=["x", "w", "b"], external_output=["y"])
    arrays = {"w": np.full((100, _WEIGHTS // 100), variant, np.float32), "b": np.full(100, variant, np.float32)}
    parameters = [Parameter(name, array.dtype, array.shape, lambda a=array: a) for name, array in arrays.items()]  # type: ignore[misc] # a default binds the current value
    return Model.of(net, b"".join(fill_net(parameters, ())))


_MODELS: Final = [_model(variant) for variant in range(_VARIANTS)]


def _only(found: set[int]) -> int:
    if len(found) != 1:
        raise BrokenModelError(f"mixed: {sorted(found)}")
    return found.pop()


def _read(path: Path) -> int:
    model = load(path)
    values = {int(value) for array in model.params.values() for value in (array.min(), array.max())}
    return _only({int(model.predict_net.name.removeprefix("variant")), *values})


def _exported(variant: int) -> onnx.ModelProto:
    made = to_onnx(_MODELS[variant], inputs={"x": ("float32", ["N", _WEIGHTS // 100])})
    made.graph.name = f"variant{variant}"
    return made


def _read_onnx(path: Path) -> int:
    for _ in range(20):
        try:
            model = onnx.load(path)  # noqa: TID251 - the test's own file
            break
        except (FileNotFoundError, onnx.checker.ValidationError):  # its weights were replaced between the two reads
            continue
        except RuntimeError as error:  # the same, while ONNX's own code looks at them
            if "No such file" not in str(error):
                raise
    else:
        raise BrokenModelError("its weights are missing")
    found = {int(model.graph.name.removeprefix("variant"))}
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            found |= {int(array.min()), int(array.max())}
    return _only(found)


def formats() -> list[Format]:
    """Every format that models can be written in here."""
    found = [
        Format(name, lambda v, path, name=name: save(_MODELS[v], path, name), _read)  # type: ignore[misc] # a default binds the current value
        for name in writable_formats()
    ]
    exported = [_exported(variant) for variant in range(_VARIANTS)]
    for name, options in (("onnx", {}), ("onnx with weights apart", {"external_data": 256})):

        def write(variant: int, path: Path, options: Mapping[str, int] = options) -> None:
            save_onnx(exported[variant], path, **options)

        found.append(Format(name, write, _read_onnx))
    return [*found, Format("checkpoint", _write_checkpoint, _read_checkpoint)]


def _write_checkpoint(variant: int, path: Path) -> None:
    path.mkdir(exist_ok=True)
    write_checkpoint(path, Checkpoint(dict(_MODELS[variant].params), [float(variant)], "loss"))


def _read_checkpoint(path: Path) -> int:
    found = read_checkpoint(path)
    return _only({int(array.min()) for array in found.state.values()} | {int(loss) for loss in found.losses})


def disturb_saves(
    kills: int, others: int, seed: int, ended: threading.Event | None = None
) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Disturb saves, unless it is ended.

    ``kills`` are killed, and as many followed by another that fails; ``others`` run out of space, and as many run at
    the same time.

    Returns how many there were, by format and kind, and what was lost or mixed.
    """
    draw = random.Random(seed)  # noqa: S311 - reproducible
    counts: Counter[tuple[str, str]] = Counter()
    faults = []
    known = formats()
    with tempfile.TemporaryDirectory() as made:
        ways = (
            (_KILLED, _kill, kills),
            (_TWICE, _disturb_two, kills),
            (_FAILED, _fill, others),
            (_RACED, _race, others),
        )
        for kind, run, count in ways:
            for index in range(count):
                if ended is not None and ended.is_set():
                    break
                form = known[index % len(known)]
                folder = Path(made, f"{kind} {index}")
                folder.mkdir()
                counts[form.name, kind] += 1
                faults += [f"{form.name}, {kind}: {fault}" for fault in run(form, folder / "model", draw)]
                shutil.rmtree(folder)
    return counts, faults


def _kill(form: Format, path: Path, draw: random.Random) -> Iterator[str]:
    """Kill a process that saves: after a while, or at one of the calls of the system that it makes."""
    form.write(0, path)
    at, delay = draw.randrange(1, _MOST_EVENTS), draw.random() * _LONGEST
    timed = draw.random() < 0.5

    def child() -> None:
        if not timed:
            _at_event(at, _die)
        for _ in range(1000 if timed else 2):
            form.write(1, path)
            form.write(2, path)

    process = _forked(child)
    if timed:
        deadline = time.monotonic() + delay
        while time.monotonic() < deadline:
            yield from _check(form, path)
        os.kill(process, signal.SIGKILL)
    if _status(process) is None:
        yield "a save does not end"
    yield from _check(form, path)
    form.write(1, path)
    yield from _check(form, path, {1})
    yield from _leftovers(path)


def _disturb_two(form: Format, path: Path, draw: random.Random) -> Iterator[str]:
    """Kill a process that saves, and one that saves next, unless that is interrupted or finds the disk full."""
    form.write(0, path)
    for variant, ways in ((1, [_die]), (2, [_die, _interrupt, _refuse])):
        at, end = draw.randrange(1, _MOST_EVENTS), draw.choice(ways)

        def child(variant: int = variant, at: int = at, end: Callable[[int], None] = end) -> None:
            _at_event(at, end)
            with suppress(BridgeError, OSError, KeyboardInterrupt):
                form.write(variant, path)

        if _status(_forked(child)) is None:
            yield "a save does not end"
        yield from _check(form, path)
    form.write(1, path)
    yield from _check(form, path, {1})
    yield from _leftovers(path)


def _fill(form: Format, path: Path, draw: random.Random) -> Iterator[str]:
    """Save where no file can have more than a number of bytes."""
    form.write(0, path)
    limit = draw.randrange(200_000)

    def child() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with suppress(BridgeError, OSError):
            form.write(1, path)
            os._exit(10)
        os._exit(11)

    status = _status(_forked(child))
    if status not in {10, 11}:
        yield f"a save within {limit} bytes ended with status {status}"  # None: it did not end
    yield from _check(form, path, {1} if status == 10 else {0, 1} if status != 11 else {0})
    yield from _leftovers(path)


def _race(form: Format, path: Path, draw: random.Random) -> Iterator[str]:
    """Save in two processes, one of them with two threads, and read meanwhile."""
    form.write(0, path)
    rounds = draw.randint(1, 4)

    def child(variant: int) -> Callable[[], None]:
        def run() -> None:
            def writes() -> None:
                for _ in range(rounds):
                    with suppress(BridgeError, OSError):
                        form.write(variant, path)

            threads = [threading.Thread(target=writes) for _ in range(variant)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return run

    processes = {_forked(child(variant)) for variant in (1, 2)}
    deadline = time.monotonic() + _SAVING
    while processes and time.monotonic() < deadline:
        yield from _check(form, path)
        processes = {process for process in processes if not os.waitpid(process, os.WNOHANG)[0]}
    for process in processes:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        yield "saves at the same time do not end"
    yield from _check(form, path)
    yield from _leftovers(path)


def _status(process: int) -> int | None:
    """The exit status of a process, negative for a signal; None if it did not end in time, and was killed."""
    deadline = time.monotonic() + _SAVING
    while time.monotonic() < deadline:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_POLL)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def _forked(run: Callable[[], None]) -> int:
    """Run a function in a copy of this process, which has all modules already; return its number."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        run()
        status = 0
    finally:
        os._exit(status)


def _at_event(at: int, end: Callable[[int], None]) -> None:
    """From one call of the system on, call ``end`` with how many there were since."""
    seen = 0

    def hook(event: str, _: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in _EVENTS:
            seen += 1
            if seen >= at:
                end(seen - at)

    sys.addaudithook(hook)


def _die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _interrupt(since: int) -> None:
    if not since:
        raise KeyboardInterrupt


def _refuse(_: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _check(form: Format, path: Path, allowed: set[int] | None = None) -> Iterator[str]:
    try:
        found = form.read(path)
    except Exception as error:  # noqa: BLE001 - whatever it is, the model is lost
        yield f"lost: {type(error).__name__}: {error}"[:300]
        return
    if allowed is not None and found not in allowed:
        yield f"variant {found} was read, not one of {sorted(allowed)}"


def _leftovers(path: Path) -> Iterator[str]:
    """Names that begin with a dot, in the folder of the target or in the target."""
    for folder in (path.parent, path):
        if folder.is_dir():
            hidden = [entry.name for entry in folder.iterdir() if entry.name.startswith(".")]
            if hidden:
                yield f"left behind: {', '.join(sorted(hidden))}"
