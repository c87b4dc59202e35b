"""The page docs/training.md, run from top to bottom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.paths import ROOT
from support.training import read_program

from caffe2_bridge import save

PAGE = ROOT / "docs" / "training.md"

pytestmark = pytest.mark.usefixtures("empty_workspace")


def test_its_code_trains_as_real_caffe2_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = read_program("mlp_adam")
    save(program.model, tmp_path)
    text = PAGE.read_text()
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    names: dict[str, Any] = {"folder": tmp_path, "batches": program.feeds, "losses": []}
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        exec(compile("\n" * line + block[1], str(PAGE), "exec"), names)  # noqa: S102 - our own documentation
    np.testing.assert_allclose(names["losses"], program.losses, rtol=1e-4)
    printed = [float(loss) for loss in capsys.readouterr().out.split()]
    np.testing.assert_allclose(printed, program.losses, rtol=1e-4)
    assert names["trained"].keys() == program.final.keys()
    for name, value in program.final.items():
        np.testing.assert_allclose(names["trained"][name], value, rtol=5e-3, atol=5e-4, err_msg=name)
