"""The workflows of continuous integration call the scripts of this repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from support.paths import ROOT

WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
COMMAND: Final = re.compile(r"run: ((?:scripts|\.ci)/[\w-]+)")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_the_scripts_of_a_workflow_exist(workflow: Path) -> None:
    called = set(COMMAND.findall(workflow.read_text(encoding="utf-8")))
    assert called
    assert [name for name in called if not (ROOT / name).stat().st_mode & 0o100] == []


def test_every_check_of_continuous_integration_is_called() -> None:
    called = {name for path in WORKFLOWS for name in COMMAND.findall(path.read_text(encoding="utf-8"))}
    assert {"scripts/check", "scripts/test", ".ci/run", "scripts/package", "scripts/test-lowest"} <= called
