"""What the page docs/training.md trains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.documentation.files import put_training_program
from support.documentation.pages import blocks_of
from support.documentation.runs import PageRun
from support.paths import ROOT
from support.training import read_program

PAGE = ROOT / "docs" / "training.md"

pytestmark = pytest.mark.usefixtures("empty_workspace")


def test_its_code_trains_as_real_caffe2_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = read_program("mlp_adam")
    put_training_program(program, tmp_path)
    monkeypatch.chdir(tmp_path)
    page = PageRun(tmp_path)
    for block in blocks_of(PAGE):
        if block.language == "python":
            page.run(block)
    np.testing.assert_allclose(page.names["losses"], program.losses, rtol=1e-4)
    printed = [float(loss) for loss in capsys.readouterr().out.split()]
    np.testing.assert_allclose(printed, program.losses, rtol=1e-4)
    trained = page.names["trained"]
    assert trained.keys() == program.final.keys()
    for name, value in program.final.items():
        np.testing.assert_allclose(trained[name], value, rtol=5e-3, atol=5e-4, err_msg=name)
