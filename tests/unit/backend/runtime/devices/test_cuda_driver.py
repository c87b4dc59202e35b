"""The CUDA driver, by a stand-in of its functions."""

from __future__ import annotations

from typing import Any

import pytest

from caffe2_backend.runtime.devices import cuda_driver
from caffe2_bridge import RunError


class Driver:
    """A driver with one GPU, which answers for its memory with a status, and counts contexts."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.pushed = self.retained = 0

    def __getattr__(self, name: str) -> Any:
        return lambda *_: 0

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802 - CUDA's name
        count._obj.value = 1
        return 0

    def cuDevicePrimaryCtxRetain(self, *_: Any) -> int:  # noqa: N802 - CUDA's name
        self.retained += 1
        return 0

    def cuDevicePrimaryCtxRelease_v2(self, *_: Any) -> int:  # noqa: N802 - CUDA's name
        self.retained -= 1
        return 0

    def cuCtxPushCurrent_v2(self, *_: Any) -> int:  # noqa: N802 - CUDA's name
        self.pushed += 1
        return 0

    def cuCtxPopCurrent_v2(self, *_: Any) -> int:  # noqa: N802 - CUDA's name
        self.pushed -= 1
        return 0

    def cuMemGetInfo_v2(self, free: Any, total: Any) -> int:  # noqa: N802 - CUDA's name
        assert (self.pushed, self.retained) == (1, 1)
        free._obj.value, total._obj.value = 3, 4
        return self.status


def driver(monkeypatch: pytest.MonkeyPatch, status: int = 0) -> Driver:
    made = Driver(status)
    monkeypatch.setattr(cuda_driver, "_driver", lambda: made)
    return made


@pytest.mark.parametrize("status", [0, 700])
def test_a_query_leaves_no_context_behind(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    made = driver(monkeypatch, status)
    if status:
        with pytest.raises(RunError, match="the CUDA driver reports error 700"):
            cuda_driver.memory_info(0)
    else:
        assert cuda_driver.memory_info(0) == (3, 4)
    assert (made.pushed, made.retained) == (0, 0)


def test_a_gpu_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    driver(monkeypatch)
    with pytest.raises(RunError, match="GPU 1 does not exist: this machine has 1"):
        cuda_driver.memory_info(1)
