"""What benchmarks printed is kept, and the README shows it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from support.paths import ROOT

FOLDER = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def keep() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmarks_keep", FOLDER / "_keep.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_is_made_of_the_stored_runs(keep: ModuleType) -> None:
    runs = keep.read_runs()
    assert runs
    assert all((FOLDER / f"{name}.py").is_file() for name in runs)
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert keep.with_section(text, runs) == text


def test_a_run_is_kept_with_what_it_was_measured_with(
    keep: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny.py").write_text("import sys\nprint('figure', sys.argv[1])\nsys.exit(sys.argv[1] == 'bad')\n")
    assert keep.keep("tiny", ["bad"], tmp_path / "results", tmp_path) == 1
    assert not (tmp_path / "results").exists()
    assert keep.keep("tiny", ["7"], tmp_path / "results", tmp_path) == 0
    assert capfd.readouterr().out.endswith("figure 7\n")
    run = json.loads((tmp_path / "results" / "tiny.json").read_text())
    assert (run["command"], run["printed"]) == ("scripts/bench tiny 7", ["figure 7"])
    assert {"date", "commit", "changed", "processor", "cores", "system", "load", "versions"} < run.keys()
    assert {"Python", "numpy", "onnx"} <= run["versions"].keys()
    text = keep.with_section(f"before\n{keep.BEGIN}\nold\n{keep.END}\nafter\n", keep.read_runs(tmp_path / "results"))
    assert text.startswith("before\n")
    assert "old" not in text
    assert "### tiny\n\n`scripts/bench tiny 7` on " in text
    assert text.endswith(f"{keep.END}\nafter\n")
