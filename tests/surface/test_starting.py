"""Starting: what importing the packages and the simplest commands load."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from types import ModuleType

import click
import pytest
from support.paths import ROOT

import caffe2_backend
import caffe2_bridge
import caffe2_frontend
from caffe2_cli import subcommands
from caffe2_cli.commands import COMMANDS, main

# What the command line needs before it knows the command. Nothing else may be loaded by --help.
OF_HELP = {"click", "caffe2_bridge", "caffe2_cli"}


def run_code(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter, from the root of the repository."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)  # noqa: S603 - its own code


def loaded(code: str) -> set[str]:
    """Return the modules that a fresh interpreter loads for some code, besides those it starts with."""
    done = run_code(
        f"import sys; before = set(sys.modules)\n{code}\nprint(*set(sys.modules) - before, file=sys.stderr)"
    )
    return set(done.stderr.split())


def third_party(modules: set[str]) -> set[str]:
    """Return the top-level packages among modules that are not of the standard library."""
    return {name.partition(".")[0] for name in modules} - sys.stdlib_module_names


def command_line(*words: str) -> str:
    """Return code that runs the command line, whatever its exit code."""
    imports = "from contextlib import suppress; from caffe2_cli.commands import main"
    return f"{imports}\nwith suppress(SystemExit): main({list(words)!r}, standalone_mode=False)"


def test_help_loads_click_alone() -> None:
    assert third_party(loaded(command_line("--help"))) == OF_HELP


@pytest.mark.parametrize(
    ("package", "loads"),
    [
        ("caffe2_bridge", {"caffe2_bridge"}),
        ("caffe2_frontend", {"caffe2_bridge", "caffe2_frontend"}),
        ("caffe2_backend", {"caffe2_backend", "caffe2_bridge", "caffe2_frontend"}),
        ("caffe2_torch", {"caffe2_bridge", "caffe2_torch"}),
    ],
)
def test_importing_a_package_loads_nothing_else(package: str, loads: set[str]) -> None:
    assert third_party(loaded(f"import {package}")) == loads


def test_listing_the_operators_loads_no_converter() -> None:
    modules = loaded(command_line("ops"))
    assert third_party(modules) == {*OF_HELP, "caffe2_frontend", "rich"}
    assert {name for name in modules if name.startswith("caffe2_frontend.ops.")} == {"caffe2_frontend.ops.index"}


def test_a_check_needs_neither_sympy_nor_onnxruntime() -> None:
    modules = loaded(command_line("check", "models/char_rnn"))
    assert {"numpy", "onnx_ir"} <= third_party(modules)
    assert not {"sympy.core", "onnxruntime", "onnxscript", "networkx", "rich"} & modules


def test_a_check_loads_nothing_of_the_second_half_of_an_export() -> None:
    modules = loaded(command_line("check", "models/char_rnn"))
    assert "caffe2_frontend.analysis" in modules
    assert not {"caffe2_frontend.pipeline", "caffe2_frontend.opsets", "caffe2_frontend.dims"} & modules


def test_modules_are_not_searched_for_garbage_at_the_end() -> None:
    code = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 10_000))"
    assert run_code(f"{code}\n{command_line('check', 'models/char_rnn')}").stdout.splitlines()[-1] == "True"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_each_command_with_its_summary(name: str) -> None:
    command = COMMANDS[name].load()
    assert command.name == name
    assert COMMANDS[name].summary.startswith(command.get_short_help_str(limit=1000))


def test_every_module_with_a_command_is_listed() -> None:
    found = set()
    for module in pkgutil.iter_modules(subcommands.__path__, f"{subcommands.__name__}."):
        name = module.name.rpartition(".")[2]
        if isinstance(getattr(importlib.import_module(module.name), name, None), click.Command):
            found.add(module.name)
    assert {entry.module for entry in COMMANDS.values()} == found
    assert main.list_commands(click.Context(main)) == sorted(COMMANDS)


@pytest.mark.parametrize("package", [caffe2_bridge, caffe2_frontend, caffe2_backend])
def test_no_public_name_hides_a_submodule(package: ModuleType) -> None:
    shared = set(package.__all__) & {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert all(isinstance(getattr(package, name), ModuleType) for name in shared)


def test_submodules_are_attributes() -> None:
    assert "caffe2_bridge.files" in loaded("import caffe2_bridge; caffe2_bridge.files.load")
    assert {"load", "files"} <= set(dir(caffe2_bridge))
    with pytest.raises(AttributeError, match="module 'caffe2_backend' has no attribute 'nothing'"):
        caffe2_backend.nothing  # noqa: B018 - the access is what is tested


def test_sympy_works_when_it_is_used() -> None:
    code = "import caffe2_frontend, onnx_ir, sys\nprint('sympy.core' in sys.modules, onnx_ir.SymbolicDim('N') + 1)"
    assert run_code(code).stdout == "False N + 1\n"
