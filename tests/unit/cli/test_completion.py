"""Completion of the command line in shells, which docs/install.md sets up."""

from __future__ import annotations

import pytest
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from caffe2_cli.commands import main

VARIABLE = "_CAFFE2_BRIDGE_COMPLETE"


@pytest.mark.parametrize(
    ("typed", "word", "offered"),
    [
        ([], "ex", {"export"}),
        ([], "do", {"doctor"}),
        (["oracle"], "", {"install"}),
        (["export", "model"], "--rec", {"--recurrent", "--recompute"}),
        (["export", "model", "--recurrent"], "", {"auto", "fused", "scan", "loop", "portable", "gpu", "unrolled"}),
    ],
)
def test_commands_options_and_choices(typed: list[str], word: str, offered: set[str]) -> None:
    shell = ShellComplete(main, {}, "caffe2-bridge", VARIABLE)
    assert {item.value for item in shell.get_completions(typed, word)} == offered


@pytest.mark.parametrize("word", ["", "models/ch"])
def test_models_are_completed_by_the_shell(word: str) -> None:
    (item,) = ShellComplete(main, {}, "caffe2-bridge", VARIABLE).get_completions(["export"], word)
    assert item.type == "file"


@pytest.mark.parametrize("shell", [BashComplete, ZshComplete, FishComplete])
def test_the_scripts_of_shells(shell: type[ShellComplete], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BashComplete, "_check_version", lambda *_: None)  # it starts bash
    script = shell(main, {}, "caffe2-bridge", VARIABLE).source()
    assert VARIABLE in script
    assert "caffe2-bridge" in script
