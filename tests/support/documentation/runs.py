"""Running the blocks of a page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from support.documentation.pages import Block, pattern_of

_SECONDS: Final = 300  # of one command
_COMPARISONS: Final = ("caffe2-bridge validate", "caffe2-bridge batch")  # they end with 1 where they find a difference


class PageRun:
    """The run of a page in a folder, which must be the working directory.

    Args:
        folder: an empty folder, but for the files that the page names.

    Attributes:
        names: what the Python blocks define.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self._printed = ""

    def run(self, block: Block) -> None:
        """Run a block. Raises what its Python raises; AssertionError if a command fails or prints something else."""
        if block.language == "python":
            code = compile("\n" * (block.line - 1) + block.code, str(block.page), "exec")
            exec(code, self.names)  # noqa: S102 - our own documentation
            return
        for command, printed in block.commands():
            if command:
                self._printed = self._shell(command, f"{block.page.name}:{block.line}")
            assert pattern_of(printed).search(self._printed), f"{command}\nprints\n{self._printed}\nand not\n{printed}"

    def _shell(self, command: str, place: str) -> str:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(  # noqa: S602 - commands of our own documentation
            command,
            shell=True,
            cwd=self._folder,
            env={**os.environ, "PATH": path, "PYTHONPATH": "", "COLUMNS": "120"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        differs = done.returncode == 1 and command.startswith(_COMPARISONS)
        assert differs or not done.returncode, f"{place}: {command}\n{done.stdout}"
        assert "Traceback" not in done.stdout, f"{place}: {command}\n{done.stdout}"
        return done.stdout
