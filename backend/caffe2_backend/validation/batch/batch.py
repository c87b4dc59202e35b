"""Every model under a folder: checked, exported and validated, each in a process of its own."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Final

from caffe2_backend.validation.batch.discovery import files_of, find_models
from caffe2_backend.validation.batch.result import VERDICTS, ModelResult
from caffe2_backend.validation.options import DEFAULTS, ValidationOptions
from caffe2_frontend.interop.onnx_files import replacing

SCHEMA: Final = 1
_TEMPLATE: Final = Path(__file__).with_name("batch.html")


def run_batch(
    folder: Path,
    out: Path,
    options: ValidationOptions = DEFAULTS,
    *,
    jobs: int = 1,
    seconds: float = 600.0,
    report: Callable[[ModelResult, int, int], None] | None = None,
) -> list[ModelResult]:
    """Validate every model under a folder; results, and a summary in JSON and HTML, go to ``out``.

    Args:
        folder: of the models.
        out: folder to write. Results in it of the same model and options are kept.
        options: of each validation; runtimes are names.
        jobs: processes at a time.
        seconds: time limit for one model.
        report: called after each model, with its result, how many are done and how many there are.

    Raises OSError if ``folder`` cannot be read or ``out`` cannot be written.
    """
    models = find_models(folder)
    if not models and not folder.is_dir():
        raise FileNotFoundError(f"folder {folder} does not exist")
    (out / "results").mkdir(parents=True, exist_ok=True)
    results: dict[Path, ModelResult] = {}

    def one(model: Path) -> ModelResult:
        name = str(model.relative_to(folder)) if model != folder else model.name
        key = _key(model, options)
        kept = _kept(_file(out, name), key)
        if kept is not None:
            return kept
        result = _run(model, name, key, options, seconds)
        with replacing(_file(out, name)) as file:
            file.write(json.dumps(asdict(result), indent=2).encode())
        return result

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        waiting = {pool.submit(one, model): model for model in models}
        for done, future in enumerate(as_completed(waiting), 1):
            results[waiting[future]] = future.result()
            if report is not None:
                report(results[waiting[future]], done, len(models))
    ordered = [results[model] for model in models]
    _write_summary(out, ordered, options)
    return ordered


def _file(out: Path, name: str) -> Path:
    """The result's file: a readable part of the name, and a digest that keeps names apart."""
    readable = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)[-80:]
    return out / "results" / f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.json"


def _key(model: Path, options: ValidationOptions) -> str:
    digest = hashlib.sha256(options.to_json().encode())
    files = sorted(path for path in model.iterdir() if path.is_file()) if model.is_dir() else files_of(model)
    for path in files:
        digest.update(f"\n{path.name}\n".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _kept(path: Path, key: str) -> ModelResult | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        result = ModelResult(**data)
    except (OSError, ValueError, TypeError):  # none, or one that was cut off
        return None
    return result if result.key == key and result.verdict in VERDICTS else None


def _run(model: Path, name: str, key: str, options: ValidationOptions, seconds: float) -> ModelResult:
    command = [sys.executable, "-m", "caffe2_backend.validation.batch.worker", str(model), options.to_json()]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)  # noqa: S603 - this project's own module
    except subprocess.TimeoutExpired:
        return ModelResult(name, "crashed", f"did not end within {seconds:.0f} seconds", seconds=seconds, key=key)
    try:
        return ModelResult(name, key=key, **json.loads(done.stdout.splitlines()[-1]))
    except (ValueError, IndexError, TypeError):
        tail = " ".join(done.stderr.splitlines()[-3:])
        return ModelResult(name, "crashed", f"its process ended with status {done.returncode}: {tail}", key=key)


def _write_summary(out: Path, results: Sequence[ModelResult], options: ValidationOptions) -> None:
    counts = Counter(result.verdict for result in results)
    summary: dict[str, Any] = {
        "schema": SCHEMA, "runtimes": list(options.runtimes or ()), "random_weights": options.random_weights,
        "counts": {verdict: counts[verdict] for verdict in VERDICTS},
        "models": [asdict(result) for result in results],
    }  # fmt: skip
    with replacing(out / "summary.json") as file:
        file.write(json.dumps(summary, indent=2).encode())
    page = Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        counts=", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]) or "no models",
        rows="\n".join(_rows(results)),
    )
    with replacing(out / "summary.html") as file:
        file.write(page.encode())


def _rows(results: Sequence[ModelResult]) -> Iterator[str]:
    for result in sorted(results, key=lambda r: VERDICTS.index(r.verdict)):
        mark = {"agree": "good", "disagree": "bad", "crashed": "bad"}.get(result.verdict, "unsure")
        yield (
            f'<tr><td><code>{escape(result.model)}</code></td><td class="{mark}">{escape(result.verdict)}</td>'
            f"<td>{result.worst:.1e}</td><td>{result.operators}</td><td>{result.seconds:.1f} s</td>"
            f"<td>{escape('; '.join([result.reason, *_remarks(result)]).strip('; '))}</td></tr>"
        )


def _remarks(result: ModelResult) -> Iterator[str]:
    if result.weights:
        yield f"{result.weights} synthesized weights"
    yield from result.notes
    for one, other, pair in result.pairs():
        yield f"{one} and {other}: {pair}"
