"""The workflows of continuous integration: what they call, on what they depend, and what they may do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
from support.paths import ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: mkdocs brings it")

WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
COMMAND: Final = re.compile(r"run: ((?:scripts|\.ci)/[\w-]+)")
PINNED: Final = re.compile(r"[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+\b")
everywhere = pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)


def jobs(workflow: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return found


@everywhere
def test_the_scripts_of_a_workflow_exist(workflow: Path) -> None:
    called = set(COMMAND.findall(workflow.read_text(encoding="utf-8")))
    assert [name for name in called if not (ROOT / name).stat().st_mode & 0o100] == []


def test_every_check_of_continuous_integration_is_called() -> None:
    called = {name for path in WORKFLOWS for name in COMMAND.findall(path.read_text(encoding="utf-8"))}
    assert {"scripts/check", "scripts/test", ".ci/run", "scripts/package", "scripts/test-lowest"} <= called


@everywhere
def test_actions_are_pinned_by_digest_with_their_version(workflow: Path) -> None:
    used = re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8"))
    assert [name for name in used if not (name.startswith("./") or PINNED.match(name))] == []


def test_an_action_has_one_digest() -> None:
    texts = [path.read_text(encoding="utf-8") for path in WORKFLOWS]
    used = {match for text in texts for match in re.findall(r"uses: ([\w-]+/[\w-]+)[\w/-]*(@\w+)", text)}
    assert len({name for name, _ in used}) == len(used)


@everywhere
def test_a_job_writes_what_it_names_alone(workflow: Path) -> None:
    assert yaml.safe_load(workflow.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}


def test_a_release_publishes_after_all_of_continuous_integration() -> None:
    release = jobs(ROOT / ".github" / "workflows" / "release.yml")
    assert release["ci"] == {"uses": "./.github/workflows/ci.yml", "with": {"share": "all"}}
    publishing = {name for name, job in release.items() if "write" in job.get("permissions", {}).values()}
    assert publishing == {"attest", "publish", "release"}
    for name in publishing:
        before, found = {name}, set[str]()
        while before:
            found |= before
            before = {needed for each in before for needed in release[each].get("needs", [])}
        assert "ci" in found
    uploaded = jobs(ROOT / ".github" / "workflows" / "ci.yml")["package"]["steps"][-1]["with"]
    assert all(uploaded["name"] == step["with"]["name"] for job in publishing for step in release[job]["steps"][:1])
