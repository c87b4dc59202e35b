"""The process of one model of a batch: reads a request as JSON from stdin, prints the record as JSON on its last line.

The request has ``task`` and ``options`` as JSON texts, ``target``, the folder of the batch, the paths ``onnx`` and
``page`` under it, and the ``command`` that started the batch.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from caffe2_backend.validation.batch.pages.model_page import write_model_page
from caffe2_backend.validation.batch.result import ModelResult
from caffe2_backend.validation.batch.run_task import run_task
from caffe2_backend.validation.batch.task import ModelTask
from caffe2_backend.validation.options import ValidationOptions
from caffe2_bridge.model import Model


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run the task of a request, write the model's page, and return the record."""
    task = ModelTask.from_json(request["task"])
    target = Path(request["target"])
    outcome = run_task(task, ValidationOptions.from_json(request["options"]), target / request["onnx"])
    record = outcome.record | {"page": request["page"]}
    if record.get("onnx"):
        record["onnx"] = request["onnx"]
    result = ModelResult(task.name, **record)
    if outcome.report is None:
        write_model_page(target, result)
    else:
        drawn = outcome.model if isinstance(outcome.model, Model) else Path(task.path)
        write_model_page(target, result, replace(outcome.report, command=request["command"]), drawn)
    return record


if __name__ == "__main__":
    print(json.dumps(answer(json.load(sys.stdin))))  # noqa: T201 - the answer
