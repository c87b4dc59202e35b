"""``caffe2-bridge batch discover`` and ``batch trends``."""

from __future__ import annotations

import click

from caffe2_bridge.storage import AnyPath
from caffe2_cli import options
from caffe2_cli.errors import COULD_NOT_RUN, reports_errors
from caffe2_cli.output.echo import echo


@click.command()
@click.argument("folder", type=options.LOCATION)
@click.option(
    "-o",
    "--output",
    "manifest",
    type=options.LOCATION,
    required=True,
    help="The manifest: a .toml, .json or .parquet file.",
)
@click.option("--update", is_flag=True, help="Add the models that an existing manifest lacks; keep what it has.")
@reports_errors(COULD_NOT_RUN)
def discover(folder: AnyPath, manifest: AnyPath, *, update: bool) -> None:
    """Write a manifest of the models under FOLDER, to edit and to give to `caffe2-bridge batch`."""
    from caffe2_fleet.models.update_manifest import discover_manifest

    found = discover_manifest(folder, manifest, update=update)
    for task in found.gone:
        echo(f"no longer there: {task.name} ({task.path})", err=True)
    echo(f"{manifest}: {len(found.added)} models added, {len(found.skipped)} files skipped")


@click.command()
@click.argument("old", type=options.LOCATION)
@click.argument("new", type=options.LOCATION)
@click.option("-o", "--output", "page", type=options.LOCATION, help="The page to write; default NEW/trends.html.")
@reports_errors(COULD_NOT_RUN)
def trends(old: AnyPath, new: AnyPath, page: AnyPath | None) -> None:
    """Compare two batches: the folders OLD and NEW, or their summary.json. Writes a page.

    Lists the models whose verdict changed, those that are new or gone, and the counts by verdict and by cause.
    """
    from caffe2_fleet.site.trends import read_summary, write_trends

    before, after = read_summary(old), read_summary(new)
    folder = new if new.is_dir() else new.parent
    target = folder / "trends.html" if page is None else page
    found = write_trends(before, after, target)
    echo(f"{target}: {found.describe()}")
