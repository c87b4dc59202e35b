"""The command line ``scripts/fuzz guided``."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

from fuzz.robust.inputs import MAIN
from fuzz.robust.seeds import write_seeds

KINDS: Final = ("net", "onnx")


def write_corpus(kind: str, folder: Path, seed: int) -> int:
    """Write the main files of the seeds of a kind, each a file of ``folder``; return how many there are."""
    with tempfile.TemporaryDirectory() as made:
        write_seeds(Path(made), seed)
        files = sorted(Path(made, kind).glob(f"*/{MAIN[kind]}"))
        for number, file in enumerate(files):
            (folder / f"{number:04d}").write_bytes(file.read_bytes())
        return len(files)


@click.command()
@click.option("--kind", type=click.Choice(KINDS), default="net", show_default=True, help="What the inputs are.")
@click.option("--minutes", type=float, default=1.0, show_default=True, help="How long to search.")
@click.option("--seed", type=int, default=1, show_default=True, help="Draw the corpus that this number stands for.")
@click.option(
    "--corpus",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder to begin with, to which inputs are added.",
)
@click.option("--write-only", is_flag=True, help="Write the corpus, and search nothing.")
def main(kind: str, minutes: float, seed: int, corpus: Path | None, write_only: bool) -> None:
    """Search by the code that inputs reach, with Atheris. Exit status 1 where something is found.

    Atheris is not among the development tools: pip install atheris.
    """
    if not write_only and not find_spec("atheris"):
        raise click.ClickException("Atheris is not installed: pip install atheris")
    with tempfile.TemporaryDirectory() as made:
        folder = corpus or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            click.echo(f"{write_corpus(kind, folder, seed)} seeds")
        if write_only:
            return
        # Atheris instruments what is imported after it: a process of its own has imported nothing.
        command = [sys.executable, "-P", "-m", "fuzz.guided.harness", kind, str(folder)]
        limits = [f"-max_total_time={round(60 * minutes)}", "-timeout=60", "-rss_limit_mb=4096", f"-seed={seed}"]
        done = subprocess.run([*command, *limits], env=dict(os.environ), check=False)  # noqa: S603 - ours
    sys.exit(1 if done.returncode else 0)


if __name__ == "__main__":
    main()
