"""A stand-in for Windows: this module, run as a script, uses the packages without what that system lacks.

What Python's documentation lists as available on Unix alone is removed from its modules, and no file is replaced while
it is open. Arguments: a copy of models/char_rnn, and a folder to write to.
"""

from __future__ import annotations

import importlib
import os
import select
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

ABSENT: Final = {
    os: (
        "fork", "forkpty", "register_at_fork", "getuid", "geteuid", "getgid", "getegid", "getpgid", "killpg", "setsid",
        "mkfifo", "fchown", "chown", "sysconf", "sched_getaffinity", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC",
        "O_DIRECTORY", "statvfs", "wait", "WNOHANG",
    ),
    select: ("poll", "epoll"),
    signal: ("SIGKILL", "SIGHUP", "SIGALRM", "SIGCHLD", "SIGPIPE", "SIGQUIT", "setitimer", "alarm", "pthread_sigmask"),
}  # fmt: skip
MODULES: Final = ("fcntl", "resource", "pwd", "grp", "termios", "pty")
_REPLACE: Final = os.replace


def pretend() -> None:
    """Remove what Windows lacks. What is imported already keeps it: Python's own modules, numpy, onnx, onnxruntime."""
    for module, names in ABSENT.items():
        for name in names:
            with suppress(AttributeError):
                delattr(module, name)
    sys.modules.update(dict.fromkeys(MODULES))  # type: ignore[arg-type] # None: its import fails
    vars(os).update(replace=replace, rename=replace)
    vars(shutil).update(_use_fd_functions=False)  # Windows opens nothing in folders; Python 3.13 reads O_NONBLOCK there


def replace(source: Any, target: Any, **_: Any) -> None:
    """Replace a file; raise PermissionError if this process has it, its target, or a file in either, open."""
    paths = [os.path.realpath(os.fsdecode(path)) for path in (source, target)]
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found = str(descriptor.readlink())
            if any(found == path or found.startswith(f"{path}/") for path in paths):
                raise PermissionError(13, "the file is used by a process", os.fsdecode(source))
    _REPLACE(source, target)


def main(model: Path, folder: Path) -> None:
    """Convert, save, save again, run and compare. Raises whatever fails."""
    for name in ("click", "numpy", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "rich", "google.protobuf", "ctypes"):
        importlib.import_module(name)
    for name in ("concurrent.futures", "multiprocessing", "subprocess", "tempfile", "shutil", "asyncio", "pathlib"):
        importlib.import_module(name)
    pretend()
    from caffe2_backend import validate
    from caffe2_cli.commands import main as cli
    from caffe2_fleet.engines.selection import open_engine
    from caffe2_validation.runtimes import RUNTIMES, find_runtime

    def command(*words: object, status: int = 0) -> None:
        try:
            cli.main([str(word) for word in words], prog_name="caffe2-bridge")
        except SystemExit as ended:
            assert (ended.code or 0) == status, (words, ended.code)  # noqa: PT017 - not a test: a script

    exported = folder / "model.onnx"
    for more in ((), (), ("--external-data",), ("--external-data",)):
        command("export", model, "-o", exported, *more)
    for _ in range(2):
        command("import", exported, "-o", folder / "imported")
        command("convert", model, folder / "other", "--format", "minidb")
    command("check", model)
    command("show", exported)
    assert validate(str(model), runtimes=["onnxruntime-cpu", "onnx-reference"]).verdict == "agree"
    for name in {"openvino", "tract", "caffe2"} & {*RUNTIMES}:
        require_refused(lambda name=name: find_runtime(name))  # type: ignore[misc] # the name of this turn
    require_refused(lambda: open_engine("local", 1))
    sys.stdout.write("used\n")


def require_refused(call: Callable[[], object]) -> None:
    """Raise AssertionError unless a call says that it needs another system."""
    from caffe2_bridge import RunError

    try:
        call()
    except RunError as error:
        assert "POSIX" in str(error), error  # noqa: PT017 - not a test: a script
    else:
        raise AssertionError(call)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
