from __future__ import annotations

import os
from pathlib import Path

from conformance.check import Status, Task
from conformance.corpus import CaseRef
from conformance.pool import Pool
from support.fragile_checker import FragileChecker, SlowStart


def tasks(*ids: str) -> list[Task]:
    return [Task(CaseRef(Path(case_id.rpartition("@")[2]), 0, case_id, "group", "op", False)) for case_id in ids]  # noqa: FBT003 - the field's place


def test_every_task_has_one_result_made_elsewhere() -> None:
    wanted = tasks("a-0@one", "a-1@one", "b-0@two")
    with Pool(2, FragileChecker) as pool:
        results = list(pool.run(wanted))
    assert sorted(result.task.id for result in results) == sorted(task.id for task in wanted)
    assert all(result.status is Status.PASSED for result in results)
    processes = {result.task.ref.path: result.detail for result in results}
    assert str(os.getpid()) not in processes.values()
    assert len({result.detail for result in results if result.task.ref.path == Path("one")}) == 1


def test_a_native_crash_costs_one_case() -> None:
    with Pool(1, FragileChecker) as pool:
        results = {result.task.id: result for result in pool.run(tasks("a@one", "dies@one", "c@one", "d@two"))}
    assert [results[name].status for name in ("a@one", "c@one", "d@two")] == [Status.PASSED] * 3
    assert results["dies@one"].status is Status.CRASHED
    assert "-6" in results["dies@one"].detail


def test_a_hang_costs_one_case() -> None:
    with Pool(1, FragileChecker, time_limit=5) as pool:
        results = {result.task.id: result for result in pool.run(tasks("a@one", "hangs@one", "c@one"))}
    assert results["hangs@one"].status is Status.CRASHED
    assert "within 5 seconds" in results["hangs@one"].detail
    assert results["c@one"].status is Status.PASSED


def test_the_start_of_a_process_does_not_count_as_time_of_a_case() -> None:
    with Pool(1, SlowStart, time_limit=1) as pool:
        results = list(pool.run(tasks("a@one", "b@one")))
    assert [result.status for result in results] == [Status.PASSED] * 2


def test_a_pool_serves_many_runs() -> None:
    with Pool(1, FragileChecker) as pool:
        first, second = (next(iter(pool.run(tasks(name)))) for name in ("a@one", "b@one"))
    assert first.detail == second.detail
