"""``scripts/package`` and ``scripts/test-lowest``."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from support.paths import ROOT

from release import environments
from release.building import build, build_differences
from release.contents import sdist_faults, sdist_sizes, wheel_faults, wheel_sizes
from release.sbom import NAME, write_sbom


def main(arguments: list[str] | None = None) -> int:
    """Run a command, and return the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/package", description="Build the sdist and the wheel into dist/.")
    parser.add_argument("--outdir", type=Path, default=ROOT / "dist", help="the folder; it is emptied. Default: dist")
    parser.add_argument(
        "--install", nargs="*", metavar="VERSION",
        help="install the wheel into a new environment of each Python (3.11 ...) and use it; default: each found",
    )  # fmt: skip
    parser.add_argument("--sbom", action="store_true", help=f"write what the wheel needs, as CycloneDX: {NAME}")
    options = parser.parse_args(arguments)
    for pattern in ("caffe2_bridge-*.tar.gz", "caffe2_bridge-*.whl", NAME):
        for old in options.outdir.glob(pattern):
            old.unlink()
    built = build(options.outdir)
    sizes = sdist_sizes(built.sdist), wheel_sizes(built.wheel)
    faults = sdist_faults(sizes[0]) + wheel_faults(sizes[1]) + build_differences(built)
    for path, files in zip(built, sizes, strict=True):
        print(f"{path}: {len(files)} files, {path.stat().st_size:,} bytes")  # noqa: T201 - the output
    print(*faults, sep="\n", end="\n" if faults else "")  # noqa: T201 - the output
    if faults:
        return 1
    if options.sbom:
        write_sbom(built.wheel, options.outdir / NAME)
    return 0 if options.install is None else install(built.wheel, options.install)


def install(wheel: Path, versions: list[str]) -> int:
    """Install and use the wheel in these Pythons, or in all that there are: 1 if one is missing."""
    pythons = environments.find_pythons()
    wanted = versions or [*pythons]
    for version in wanted:
        if version not in pythons:
            print(f"Python {version} is not installed")  # noqa: T201 - the output
            return 1
        print(f"Python {version}:", flush=True)  # noqa: T201 - the output
        with tempfile.TemporaryDirectory() as folder:
            environments.install_and_use(pythons[version], wheel, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
