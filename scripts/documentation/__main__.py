"""``scripts/docs``: build the site."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
from pathlib import Path
from typing import Final

from documentation.command_line import command_line_page
from documentation.drawings import table_of_rooms, write_drawings
from documentation.notebooks import write_tutorials
from documentation.operators import operators_page
from documentation.pages import ROOT, navigation, write_pages
from documentation.reference import write_reference

_ROOMS: Final = "<!-- table: rooms -->"


def write_sources(folder: Path, *, run_tutorials: bool) -> None:
    """Write everything that MkDocs reads into a folder, which is emptied."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    write_pages(folder)
    write_drawings(folder / "drawings")
    page = folder / "architecture.md"
    page.write_text(page.read_text(encoding="utf-8").replace(_ROOMS, "".join(table_of_rooms())), encoding="utf-8")
    write_reference(folder / "reference")
    (folder / "reference" / "operators.md").write_text("\n".join(operators_page()), encoding="utf-8")
    (folder / "reference" / "command-line.md").write_text("\n".join(command_line_page()), encoding="utf-8")
    write_tutorials(folder / "tutorials", run=run_tutorials)


def build(folder: Path, *, run_tutorials: bool = True) -> Path:
    """Build the site below a folder and return its path. Raises mkdocs' Abort for a broken link or a missing page."""
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config

    pages, site = folder / "pages", folder / "site"
    write_sources(pages, run_tutorials=run_tutorials)
    config = load_config(str(ROOT / "mkdocs.yml"), docs_dir=str(pages), site_dir=str(site))
    config.nav = navigation(config.nav or [], pages)
    config.plugins.run_event("startup", command="build", dirty=False)
    try:
        build_site(config)
    finally:
        config.plugins.run_event("shutdown")
    return site


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/docs", description="Build the documentation site.")
    parser.add_argument("--outdir", type=Path, default=ROOT / "build" / "documentation", help="default: %(default)s")
    parser.add_argument("--no-run", action="store_true", help="do not run the tutorials: their pages have no outputs")
    options = parser.parse_args(arguments)
    logging.getLogger("mkdocs").addHandler(logging.StreamHandler())
    print(build(options.outdir.resolve(), run_tutorials=not options.no_run) / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
