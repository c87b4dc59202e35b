"""``scripts/docs``: build the site."""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
from pathlib import Path
from typing import Final

from documentation.command_line import command_line_page
from documentation.converter import settings, write_converter
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
    write_converter(folder / "try")


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


def _location(text: str) -> tuple[str, str]:
    """Parse ``NAME=URL``."""
    name, equals, address = text.partition("=")
    if not equals or name not in settings()["locations"]:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=URL, of {', '.join(settings()['locations'])}")
    return name, address


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/docs", description="Build the documentation site.")
    parser.add_argument("--outdir", type=Path, default=ROOT / "build" / "documentation", help="default: %(default)s")
    parser.add_argument("--no-run", action="store_true", help="do not run the tutorials: their pages have no outputs")
    parser.add_argument("--converter", type=Path, metavar="FOLDER", help="write only the page that converts, there")
    parser.add_argument(
        "--location", type=_location, action="append", default=[], metavar="NAME=URL",
        help=f"with --converter, where it loads {', '.join(settings()['locations'])} from; repeatable",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if options.converter is not None:
        write_converter(options.converter.resolve(), dict(options.location))
        print(options.converter / "index.html")
        return 0
    logging.getLogger("mkdocs").addHandler(logging.StreamHandler())
    print(build(options.outdir.resolve(), run_tutorials=not options.no_run) / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
