"""One job: run in a process of the pool, tried again if the process dies, and recorded."""

from __future__ import annotations

from typing import Any, Final

from caffe2_bridge.storage import locate
from caffe2_fleet.batch_records import Records
from caffe2_fleet.job import Job
from caffe2_fleet.process.model_process import LimitError, ProcessEndedError
from caffe2_fleet.process.pool import ProcessPool
from caffe2_fleet.result import ModelResult
from caffe2_fleet.site.model_page import write_model_page

_DEATHS: Final = 2  # of processes, after which the model itself is at fault


def execute(job: Job, pool: ProcessPool) -> ModelResult:
    """Run a job, and write its files and its record, which is the last of them.

    A model with a record of the same key is not run again: a worker that was lost may have written it. If the process
    of a model dies, the model runs once more alone, in a process that runs nothing else; if that dies, too, the result
    is ``crashed``. Raises StoppedError if the pool is stopped, and OSError if the files cannot be written.
    """
    return kept_result(job) or write_result(job, answer(job, pool))


def kept_result(job: Job) -> ModelResult | None:
    """Return the result that a record of the job's key holds, if there is one."""
    return Records(locate(job.target)).find(job.task.name, job.key) if job.target and job.key else None


def write_result(job: Job, result: ModelResult) -> ModelResult:
    """Write the record of a job, after the page that a process which died did not write, and return the result.

    Raises OSError if the files cannot be written.
    """
    if job.target:
        target = locate(job.target)
        if result.verdict == "crashed":
            write_model_page(target, result)
        Records(target).write(result)
    return result


def answer(job: Job, pool: ProcessPool) -> ModelResult:
    """Run a job, which writes all its files but the record. Raises StoppedError if the pool is stopped."""
    reasons: list[str] = []
    cause = ""
    while len(reasons) < _DEATHS:
        try:
            with pool.lease(fresh=bool(reasons)) as process:
                record = process.ask(job.request(), job.limits.seconds, job.limits.memory)
        except LimitError as error:
            return crashed(job, str(error), error.limit, len(reasons) + 1)
        except ProcessEndedError as error:
            reasons.append(str(error))
            cause = error.cause
        else:
            record = _diagnosed(job, pool, record)
            own = {"owner": job.task.owner, "key": job.key, "bytes": job.bytes, "attempts": len(reasons) + 1}
            return ModelResult(job.task.name, **{"page": job.page} | record | own)
    return crashed(job, f"{reasons[-1]} (twice, the second time alone)", cause, len(reasons))


def _diagnosed(job: Job, pool: ProcessPool, record: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a model, whose run is repeated to find the operator that differs if sides disagree.

    The second run has limits of its own; where it meets them the record of the first one stays.
    """
    if record["verdict"] != "disagree" or not job.target:
        return record
    try:
        with pool.lease() as process:
            found = process.ask(job.diagnosis(), job.limits.seconds, job.limits.memory)
    except (LimitError, ProcessEndedError) as error:
        return record | {"notes": [*record["notes"], f"the operator that differs was not found: {error}"]}
    return found if found["verdict"] == "disagree" else record


def crashed(job: Job, reason: str, cause: str, attempts: int) -> ModelResult:
    """Return the result of a model that did not answer."""
    return ModelResult(
        job.task.name, "crashed", reason, cause, owner=job.task.owner, page=job.page, key=job.key, bytes=job.bytes,
        attempts=attempts,
    )  # fmt: skip
