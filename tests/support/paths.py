"""Where the tests find their data."""

from pathlib import Path
from typing import Final

SUPPORT: Final = Path(__file__).resolve().parent
ROOT: Final = SUPPORT.parents[1]
GOLDEN: Final = ROOT / "tests" / "golden"
MODELS: Final = GOLDEN / "models"
CHAR_RNN: Final = ROOT / "models" / "char_rnn"
# The import packages by the name of their tests' folder.
PACKAGES: Final = {
    "bridge": ROOT / "bridge" / "caffe2_bridge", "frontend": ROOT / "frontend" / "caffe2_frontend",
    "pytorch": ROOT / "pytorch" / "caffe2_torch",
    **{
        name: ROOT / "backend" / f"caffe2_{name}"
        for name in ("backend", "validation", "compat", "fleet", "deploy", "cli")
    },
}  # fmt: skip
DATA: Final = SUPPORT / "data"
CAFFE2_MODELS: Final = DATA / "caffe2_models"
