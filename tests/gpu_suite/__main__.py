"""The command scripts/gpu."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from gpu_suite import wheels
from gpu_suite.environment import make_environment
from gpu_suite.page import one_line, worst, write_report
from gpu_suite.results import STATUSES
from gpu_suite.runner import StageReport, run_stages
from gpu_suite.stage_table import STAGES, STAND_IN_STAGES, Stage

_SECONDS: Final = 520.0
_REHEARSAL: Final = 6  # as much time: the CPU stands in, maybe of a busy machine
_MEGABYTE: Final = 1_000_000
_DEVICES: Final = {
    "": "CUDA",
    "cpu": "CPU under the name of CUDA (a rehearsal)",
    "emulated-cuda": "onnxruntime's CUDA provider on emulated libraries: no values",
    "webgpu": "onnxruntime's WebGPU provider on a software GPU, under the name of CUDA",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare wheels, or run the stages; 0 if all passed, 1 if one did not, 2 if none could run."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return _prepare(options) if options.prepare else _prove(options, _chosen(parser, options))
    except wheels.WheelError as error:
        print(f"scripts/gpu: {error}", file=sys.stderr)  # noqa: T201 - the command's one line
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/gpu",
        description="Prove the project on a CUDA GPU: tests, golden and training models, host copies, speed.",
    )
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="the folder of wheels that --prepare has made")
    parser.add_argument("--json", type=Path, default=Path("gpu.json"), metavar="OUT",
                        help="the report; a page with .md is written beside it (default: %(default)s)")  # fmt: skip
    parser.add_argument("--environment", type=Path, metavar="DIR", help="keep the installed packages here")
    parser.add_argument("--stages", metavar="NAME,...", help=f"of {','.join(stage.name for stage in STAGES)}")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="for all stages (default: %(default)s)")
    stand_ins = parser.add_mutually_exclusive_group()
    for option, name, what in (
        ("--stand-in", "cpu", "run on the CPU under the name of CUDA, as a rehearsal"),
        (
            "--emulated-cuda",
            "emulated-cuda",
            "onnxruntime's CUDA provider without a GPU: it places, copies and records",
        ),
        ("--webgpu", "webgpu", "onnxruntime's WebGPU provider on a software GPU: values are real"),
    ):
        stand_ins.add_argument(option, dest="stand_in", action="store_const", const=name, default="", help=what)
    parser.add_argument("--prepare", type=Path, metavar="DIR", help="download the wheels on a machine with network")
    parser.add_argument("--python", default="3.12", help="the Python version of the machine with the GPU (--prepare)")
    parser.add_argument("--part-size", type=float, default=60, metavar="MB", help="of a part (default: %(default)s)")
    return parser


def _chosen(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[Stage]:
    stages = STAND_IN_STAGES.get(options.stand_in, STAGES)
    if options.stages is None:
        return list(stages)
    by_name = {stage.name: stage for stage in stages}
    names = options.stages.split(",")
    unknown = [name for name in names if name not in by_name]
    if unknown:
        parser.error(f"unknown stage {', '.join(unknown)}: the stages are {', '.join(by_name)}")
    return [by_name[name] for name in names]


def _prepare(options: argparse.Namespace) -> int:
    parts = wheels.prepare(options.prepare, options.python, int(options.part_size * _MEGABYTE))
    for part in parts:
        size = sum(path.stat().st_size for path in part.iterdir())
        print(f"{part}  {size / _MEGABYTE:.1f} MB")  # noqa: T201 - the command's output
    print("Copy the parts into one folder on the machine with the GPU; this joins, checks and uses them:")  # noqa: T201 - as above
    print("  scripts/gpu --wheels FOLDER")  # noqa: T201 - as above
    return 0


def _prove(options: argparse.Namespace, stages: Sequence[Stage]) -> int:
    start = time.monotonic()
    slower = _REHEARSAL if options.stand_in else 1
    with tempfile.TemporaryDirectory(prefix="gpu-suite-") as name:
        folder = Path(name)
        environment = make_environment(options.environment or folder, options.wheels, stand_in=options.stand_in)
        about = {
            "date": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
            "python": f"{platform.python_version()} ({sys.executable})",
            "device": _DEVICES[options.stand_in],
        }
        reports = run_stages(
            stages, environment, folder,
            seconds=slower * options.seconds - (time.monotonic() - start),
            slower=slower,
            write=lambda found: write_report(options.json, about, found),
        )  # fmt: skip
    for report in reports:
        _print(report)
    print(f"written: {options.json}, {options.json.with_suffix('.md')}")  # noqa: T201 - the command's output
    return 0 if worst(reports) == "passed" else 1


def _print(report: StageReport) -> None:
    counts: dict[str, Any] = {status: report.count(status) for status in STATUSES}
    text = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    print(f"{report.stage:<9} {report.outcome:<8} {report.seconds:6.1f} s  {text}  {one_line(report.reason)}".rstrip())  # noqa: T201 - the command's output


if __name__ == "__main__":
    sys.exit(main())
