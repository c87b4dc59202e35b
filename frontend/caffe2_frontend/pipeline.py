"""The export, read from top to bottom."""

from __future__ import annotations

from typing import Final

from caffe2_bridge.passes import Pass, RaiseErrors
from caffe2_frontend.passes.check_model import CheckModel
from caffe2_frontend.passes.convert_opset import ConvertOpset
from caffe2_frontend.passes.convert_to_ssa import ConvertToSsa
from caffe2_frontend.passes.describe_inputs import DescribeInputs
from caffe2_frontend.passes.eliminate_dead_code import EliminateDeadCode
from caffe2_frontend.passes.eliminate_redundancy import EliminateRedundancy
from caffe2_frontend.passes.fold_constants import FoldConstants
from caffe2_frontend.passes.lower_net import LowerNet
from caffe2_frontend.passes.merge_directions import MergeDirections
from caffe2_frontend.passes.record_origins import RecordOrigins
from caffe2_frontend.passes.sink_weights import SinkWeights
from caffe2_frontend.state import Export

# Everything that can be wrong with a net is reported here: the check ends with it.
UNDERSTAND: Final[tuple[Pass[Export], ...]] = (
    ConvertToSsa(),
    DescribeInputs(),
    LowerNet(),
)

EXPORT: Final[tuple[Pass[Export], ...]] = (
    *UNDERSTAND,
    RaiseErrors(),
    EliminateRedundancy(),
    EliminateDeadCode(),
    MergeDirections(),
    FoldConstants(),
    EliminateDeadCode(),
    ConvertOpset(),
    RaiseErrors(),
    CheckModel(),
    SinkWeights(),
    RecordOrigins(),
)
