"""The export, read from top to bottom."""

from __future__ import annotations

from typing import Final

from caffe2_bridge.passes import Pass
from caffe2_frontend.passes.check_model import CheckModel
from caffe2_frontend.passes.convert_opset import ConvertOpset
from caffe2_frontend.passes.convert_to_ssa import RenameToSsa
from caffe2_frontend.passes.describe_inputs import DescribeInputs
from caffe2_frontend.passes.eliminate_dead_code import CleanUp, RemoveUnused
from caffe2_frontend.passes.fold_constants import FoldConstants
from caffe2_frontend.passes.lower_net import LowerNet
from caffe2_frontend.passes.merge_directions import MergeDirections
from caffe2_frontend.passes.raise_errors import RefuseFindings
from caffe2_frontend.passes.record_origins import RecordOrigins
from caffe2_frontend.passes.sink_weights import SinkWeights
from caffe2_frontend.state import Export

# Everything that can be found wrong with a net is found here: the check ends with it.
UNDERSTAND: Final[tuple[Pass[Export], ...]] = (
    RenameToSsa(),
    DescribeInputs(),
    LowerNet(),
)

EXPORT: Final[tuple[Pass[Export], ...]] = (
    *UNDERSTAND,
    RefuseFindings(),
    CleanUp(),
    MergeDirections(),
    FoldConstants(),
    RemoveUnused(),
    ConvertOpset(),
    RefuseFindings(),
    CheckModel(),
    RefuseFindings(),
    SinkWeights(),
    RecordOrigins(),
)
