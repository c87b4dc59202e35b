"""A batch: every model checked, exported and validated, each in a process of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from caffe2_backend.validation.batch.discovery import Skipped, discover
from caffe2_backend.validation.batch.manifest import SUFFIXES, read_manifest
from caffe2_backend.validation.batch.pages.model_page import write_model_page
from caffe2_backend.validation.batch.pages.summary import write_summary
from caffe2_backend.validation.batch.records import Records, key_of
from caffe2_backend.validation.batch.result import ModelResult
from caffe2_backend.validation.batch.task import ModelTask
from caffe2_backend.validation.batch.workers import Workers
from caffe2_backend.validation.options import DEFAULTS, ValidationOptions


@dataclass(frozen=True)
class Batch:
    """The results of a batch, in the order of its models, and the files that it skipped."""

    results: Sequence[ModelResult]
    skipped: Sequence[Skipped]


def run_batch(
    source: Path,
    out: Path,
    options: ValidationOptions = DEFAULTS,
    *,
    jobs: int = 1,
    seconds: float = 600.0,
    report: Callable[[ModelResult, int, int], None] | None = None,
    command: str = "",
) -> Batch:
    """Export and validate models; ``out`` gets the .onnx files, a page and a record of each, and a summary of all.

    Args:
        source: a folder, under which models are found, or a manifest.
        out: folder to write. Results in it of the same model and options are kept.
        options: of each validation; runtimes are names.
        jobs: processes at a time.
        seconds: time limit for one model.
        report: called after each model, with its result, how many are done and how many there are.
        command: the command line, for the pages.

    Raises:
        OptionError: the manifest is not valid.
        NetFormatError: the manifest is neither TOML nor JSON.
        OSError: ``source`` cannot be read, or ``out`` cannot be written.
    """
    tasks, skipped = find_tasks(source, out)
    records = Records(out)
    results: dict[str, ModelResult] = {}

    def one(task: ModelTask) -> ModelResult:
        try:
            key = key_of(task, options)
        except OSError:  # the process of the model reports it
            key = ""
        kept = records.find(task.name, key) if key else None
        if kept is not None:
            return kept
        result = _run(task, key, options, out, seconds, command, workers)
        records.write(result)
        return result

    workers = Workers()
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        waiting = {pool.submit(one, task): task for task in tasks}
        try:
            for done, future in enumerate(as_completed(waiting), 1):
                result = results[waiting[future].name] = future.result()
                if report is not None:
                    report(result, done, len(tasks))
        except BaseException:  # Ctrl-C, above all: nothing that waits starts, and what runs ends
            workers.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    ordered = [results[task.name] for task in tasks]
    write_summary(out, ordered, skipped, options, command)
    return Batch(ordered, skipped)


def find_tasks(source: Path, out: Path) -> tuple[list[ModelTask], Sequence[Skipped]]:
    """The tasks of a folder or of a manifest, and the files that are skipped. Raises like :func:`run_batch`."""
    if source.is_file() and source.suffix in SUFFIXES:
        return read_manifest(source), ()
    if not source.is_dir():
        raise FileNotFoundError(f"{source} must be a folder with models, or a manifest (.toml, .json)")
    found = discover(source, out)
    names = [str(model.relative_to(source)) if model != source else model.resolve().name for model in found.models]
    tasks = [ModelTask(name, str(model)) for name, model in zip(names, found.models, strict=True)]
    return tasks, found.skipped


def _run(
    task: ModelTask, key: str, options: ValidationOptions, out: Path, seconds: float, command: str, workers: Workers
) -> ModelResult:
    """Run a task in a process of its own; one that does not answer is a result, too. Raises StoppedError."""
    request = {
        "task": task.to_json(), "options": options.to_json(), "target": str(out), "command": command,
        "onnx": f"onnx/{task.name}.onnx", "page": f"pages/{task.name}.html",
    }  # fmt: skip
    words = [sys.executable, "-m", "caffe2_backend.validation.batch.worker"]
    answer = workers.run(words, json.dumps(request), seconds)
    try:
        if answer is not None:
            return ModelResult(task.name, key=key, **json.loads(answer.output.splitlines()[-1]))
        reason = f"did not end within {seconds:.0f} seconds"
    except (ValueError, IndexError, TypeError):
        assert answer is not None
        tail = " ".join(answer.errors.splitlines()[-3:])
        reason, seconds = f"its process ended with status {answer.status}: {tail}", 0.0
    result = ModelResult(task.name, "crashed", reason, seconds=seconds, page=request["page"], key=key)
    write_model_page(out, result)
    return result
