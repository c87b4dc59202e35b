"""``caffe2-bridge batch discover`` and ``batch trends``."""

from __future__ import annotations

import click

from caffe2_bridge.storage import AnyPath
from caffe2_cli import options
from caffe2_cli.command import Outcome, command
from caffe2_cli.exit_codes import YES
from caffe2_cli.output.echo import echo, message, name_of, say
from caffe2_cli.output.skipped import print_skipped, without_parts


@command(
    example="caffe2-bridge batch discover models -o models.toml", schema=1, codes={YES: "The manifest is written."}
)
@click.argument("folder", type=options.LOCATION)
@options.out("manifest", "The manifest: a .toml, .json or .parquet file", required=True)
@click.option("--update", is_flag=True, help="Add the models that an existing manifest lacks; keep what it has.")
def discover(folder: AnyPath, manifest: AnyPath, *, update: bool) -> Outcome:
    """Write a manifest of the models under FOLDER, to edit and to give to `caffe2-bridge batch`.

    Files that are not models, nor parts of one, are listed on stderr with the reason, 20 of them; with --json all are.
    """
    from caffe2_fleet.models.update_manifest import discover_manifest

    found = discover_manifest(folder, manifest, update=update)
    for task in found.gone:
        message("warning", f"no longer there: {task.name} ({task.path})")
    print_skipped(found.skipped, "which --json lists")
    say(f"{manifest}: {len(found.added)} models added, {len(without_parts(found.skipped))} other files skipped")
    added, gone = ([task.name for task in tasks] for tasks in (found.added, found.gone))
    return Outcome({"path": str(manifest), "added": added, "gone": gone, "skipped": [vars(f) for f in found.skipped]})


@command(example="caffe2-bridge batch trends checked-1 checked-2", schema=1, codes={YES: "The page is written."})
@click.argument("old", type=options.LOCATION)
@click.argument("new", type=options.LOCATION)
@options.out("page", "The page to write; default NEW/trends.html", file=True)
def trends(old: AnyPath, new: AnyPath, page: AnyPath | None) -> Outcome:
    """Compare two batches: the folders OLD and NEW, or their summary.json. Writes a page.

    Lists the models whose verdict changed, those that are new or gone, and the counts by verdict and by cause.
    """
    from caffe2_fleet.site.trends import read_summary, write_trends

    before, after = read_summary(old), read_summary(new)
    folder = new if new.is_dir() else new.parent
    target = folder / "trends.html" if page is None else page
    found = write_trends(before, after, target)
    echo(f"{name_of(target)}: {found.describe()}")
    counts = {verdict: list(pair) for verdict, pair in found.counts.items()}
    changed = {name: [new.model for _, new in getattr(found, name)] for name in ("worse", "better", "drifted")}
    models = {name: [each.model for each in getattr(found, name)] for name in ("added", "gone")}
    return Outcome({"path": name_of(target), "counts": counts, **changed, **models})
