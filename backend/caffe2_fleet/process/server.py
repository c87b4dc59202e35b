"""A process that runs models: reads requests as lines of JSON from stdin, writes a line of JSON for each to stdout.

A request has ``task`` and ``options`` as JSON texts, ``target``, the folder of the batch (empty: nothing is written),
the paths ``onnx``, ``page`` and ``repro`` under it (``repro`` empty: the operator that differs is not looked for), and
the ``plugins`` to import. The first line that the process writes says that it is ready. It ends as soon as stdin does,
also in the middle of a model: with the process that started it, however that ended.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from caffe2_bridge.model import Model
from caffe2_bridge.storage import locate
from caffe2_fleet.process.alone import command_of
from caffe2_fleet.process.run_task import run_task
from caffe2_fleet.result import ModelResult
from caffe2_fleet.site.model_page import write_model_page
from caffe2_fleet.task import ModelTask
from caffe2_validation.options import ValidationOptions

_LONGEST: Final = 400


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run the task of a request, write the model's page, and return the record."""
    task = ModelTask.from_json(request["task"])
    options = ValidationOptions.from_json(request["options"])
    if not request["target"]:
        return run_task(task, options, plugins=request["plugins"]).record
    target = locate(request["target"])
    repro = request["repro"]
    if repro:
        options = replace(options, lockstep=True, repro=target / repro)
    outcome = run_task(task, options, target / request["onnx"], request["plugins"])
    record = outcome.record | {"page": request["page"]}
    if record.get("onnx"):
        record["onnx"] = request["onnx"]
    report = outcome.report
    if report is not None:
        report = replace(report, command=command_of(task, options, request["plugins"]))
        record["repro"] = repro if any(found.folder for found in report.divergences) else ""
    result = ModelResult(task.name, owner=task.owner, **record)
    drawn = outcome.model if outcome.model is None or isinstance(outcome.model, Model) else locate(task.path)
    if not repro or result.verdict == "disagree":  # else the page of the run that found them to disagree stays
        write_model_page(target, result, report, drawn)
    return record


def answer_anything(request: dict[str, Any]) -> dict[str, Any]:
    """Answer as :func:`answer`, with a fault of this project as the result of the model that met it."""
    try:
        return answer(request)
    except Exception as error:  # noqa: BLE001 - any fault must cost one model alone
        place = _place(error)
        cause = f"internal error: {type(error).__name__}"
        reason = " ".join(f"{cause}: {error}".split())[:_LONGEST]
        return {"verdict": "crashed", "reason": f"{reason} ({place})", "cause": f"{cause} ({place})"}


def _place(error: BaseException) -> str:
    """Return the file and line that raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


def _read(requests: SimpleQueue[str]) -> None:
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


def serve() -> None:
    """Answer requests until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # native libraries print there, which must not mix with answers
    requests: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    line = json.dumps({"ready": os.getpid()})
    while True:
        answers.write(line + "\n")
        answers.flush()
        line = json.dumps(answer_anything(json.loads(requests.get())))
