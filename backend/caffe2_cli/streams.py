"""Standard input and output in place of one file: ``-``."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
from click.shell_completion import CompletionItem

from caffe2_bridge.diagnostics import BridgeError, OptionError
from caffe2_bridge.storage import AnyPath, locate
from caffe2_cli.settings import settings

STREAM: Final = "-"
_READ: Final = "caffe2_cli.streams.read"
# The first byte of a serialized ONNX model (its IR version), and of no net.
_ONNX: Final = b"\x08"


class LocationType(click.ParamType[AnyPath]):
    """A path, or the URL of a file or folder; ``-`` where one file can go through standard input."""

    name = "path"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> AnyPath:
        """Locate the text of an argument."""
        if value == STREAM and ctx is not None and not ctx.resilient_parsing:
            return self.of_stream(ctx)
        if not value:
            self.fail("a path must not be empty", param, ctx)
        try:
            return locate(value)  # type: ignore[arg-type]  # a text, or the path of a default
        except OptionError as error:
            self.fail(str(error), param, ctx)

    def of_stream(self, ctx: click.Context) -> AnyPath:
        """Return a file with the content of standard input."""
        if ctx.meta.setdefault(_READ, False):
            raise click.UsageError("standard input (-) can be given once")
        ctx.meta[_READ] = True
        return ctx.with_resource(_read())

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Let the shell complete local paths."""
        del ctx, param
        return [CompletionItem(incomplete, type="file")]


class OutputType(LocationType):
    """A path or URL to write; ``-`` is standard output, which gets a file that has this suffix until then."""

    def __init__(self, suffix: str = "") -> None:
        self.suffix = suffix

    def of_stream(self, ctx: click.Context) -> AnyPath:
        """Return a file whose content goes to standard output once it is written."""
        if settings().piped is not None:
            raise click.UsageError("standard output (-) can be given once")
        return ctx.with_resource(_written(self.suffix))


class FolderType(OutputType):
    """A folder to write, or a file that ``-`` cannot be; ``local``: no URL is one."""

    def __init__(self, *, local: bool = False) -> None:
        super().__init__()
        self.local = local

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> AnyPath:
        """Locate the text of an argument."""
        found = super().convert(value, param, ctx)
        if self.local and not isinstance(found, Path):
            self.fail(f"{found} is a URL, and a local path is expected", param, ctx)
        return found

    def of_stream(self, ctx: click.Context) -> AnyPath:
        """Refuse standard output."""
        del ctx
        raise click.UsageError(f"this cannot be written to standard output (-); a path of that name is ./{STREAM}")


def require_other_files(context: click.Context) -> None:
    """Raise click.UsageError if a file that a command writes is one that it reads, or is written twice."""
    read: list[Path] = []
    written: list[Path] = []
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if isinstance(value, Path) and isinstance(parameter.type, LocationType):
            (written if isinstance(parameter.type, OutputType) else read).append(value)
    if len({path.absolute() for path in written}) < len(written):
        raise click.UsageError(f"{written[-1]} is given twice to write to")
    for path in filter(Path.is_file, written):
        if any(path.samefile(file) for given in read for file in _files_read(given)):
            raise click.UsageError(f"{path} is a file that is read, and would be lost: give another one to write")


def require_one_file() -> None:
    """Raise click.UsageError if what a command wrote for standard output is not one file."""
    piped = settings().piped
    if piped is not None and any(path != piped or not path.is_file() for path in piped.parent.iterdir()):
        raise click.UsageError("what is written is more than one file, which standard output (-) cannot have")


def _files_read(path: Path) -> Iterator[Path]:
    """Yield the files that are read where a path is given: a file, or the nets of a folder, or its summary."""
    from caffe2_bridge.files import pairing

    yield from filter(Path.is_file, [path / "summary.json"])
    with suppress(BridgeError, OSError):
        net = pairing.predict_net_in(path) if path.is_dir() else path
        init = None if net is None else pairing.init_net_beside(net)
        yield from (file for file in (net, init) if isinstance(file, Path) and file.is_file())


@contextmanager
def _read() -> Iterator[Path]:
    content = sys.stdin.buffer
    start = content.read(1)
    with TemporaryDirectory(prefix="caffe2-bridge-stdin-") as folder:
        path = Path(folder, f"stdin{'.onnx' if start == _ONNX else ''}")
        with path.open("wb") as file:
            file.write(start)
            shutil.copyfileobj(content, file)
        yield path


@contextmanager
def _written(suffix: str) -> Iterator[Path]:
    chosen = settings()
    with TemporaryDirectory(prefix="caffe2-bridge-stdout-") as folder:
        chosen.piped = path = Path(folder, f"stdout{suffix}")
        try:
            yield path
        finally:
            try:
                require_one_file()
            finally:
                chosen.piped = None
            if path.is_file():
                with path.open("rb") as file:
                    shutil.copyfileobj(file, sys.stdout.buffer)
                sys.stdout.flush()
