"""Where faults of this project's own code occurred."""

from __future__ import annotations

import pytest
from support.paths import PACKAGES, ROOT

from caffe2_bridge.diagnostics.internal import internal_error


def raised_in(file: str) -> ValueError:
    """Return an error whose traceback ends in a file."""
    with pytest.raises(ValueError, match="x") as raised:
        exec(compile("raise ValueError('x')", file, "exec"), {})  # noqa: S102 - a line of this test
    return raised.value


@pytest.mark.parametrize("name", PACKAGES)
def test_a_fault_is_placed_in_every_package(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAFFE2_BRIDGE_VERIFY", raising=False)
    folder = PACKAGES[name]
    reason = internal_error(raised_in(str(folder / "room" / "file.py"))).reason
    assert f"{folder.relative_to(ROOT).name}/room/file.py:1" in reason
