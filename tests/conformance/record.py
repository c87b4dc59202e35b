"""The command line ``scripts/record``."""

from __future__ import annotations

from pathlib import Path

import click

from conformance.recording import record

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@click.command()
@click.argument("spec", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o", "folder", type=click.Path(path_type=Path), default=GOLDEN / "recorded", help="Where the cases are written."
)
def main(spec: Path, folder: Path) -> None:
    """Run the cases of SPEC.py in real Caffe2 and add them to the golden corpus."""
    try:
        lines = record(spec, folder)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    for line in lines:
        click.echo(line)


if __name__ == "__main__":
    main()
