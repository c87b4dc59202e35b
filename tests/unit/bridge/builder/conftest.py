"""Makes the modules beside the tests of this folder importable: cell_cases, torch_nets."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
