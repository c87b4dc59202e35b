"""Where the tests find their data."""

from pathlib import Path
from typing import Final

SUPPORT: Final = Path(__file__).resolve().parent
ROOT: Final = SUPPORT.parents[1]
GOLDEN: Final = ROOT / "tests" / "golden"
MODELS: Final = GOLDEN / "models"
CHAR_RNN: Final = ROOT / "models" / "char_rnn"
DATA: Final = SUPPORT / "data"
CAFFE2_MODELS: Final = DATA / "caffe2_models"
