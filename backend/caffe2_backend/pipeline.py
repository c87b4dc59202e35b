"""The passes of the import, in order."""

from __future__ import annotations

from typing import Final

from caffe2_backend.passes.assign_devices import AssignDevices
from caffe2_backend.passes.convert_opset import ConvertOpset, RelabelOpset
from caffe2_backend.passes.describe_inputs import DescribeInputs
from caffe2_backend.passes.expand_functions import ExpandFunctions
from caffe2_backend.passes.flatten import InferShapes, InlineFunctions, LiftConstants, LiftOwnConstants
from caffe2_backend.passes.fold_constants import FoldConstants
from caffe2_backend.passes.fuse_int8 import FuseInt8
from caffe2_backend.passes.infer_loop_shapes import InferLoopShapes
from caffe2_backend.passes.lower_graph import LowerGraph
from caffe2_backend.passes.move_contributed import MoveContributed
from caffe2_backend.passes.reinfer_shapes import ReinferShapes
from caffe2_backend.passes.remove_sequences import RemoveSequences
from caffe2_backend.passes.restore_operators import RestoreOperators
from caffe2_backend.state import Import
from caffe2_bridge.passes import Pass, RaiseErrors

IMPORT: Final[tuple[Pass[Import], ...]] = (
    DescribeInputs(),
    RestoreOperators(),
    InlineFunctions(),
    MoveContributed(),
    InferLoopShapes(),
    RelabelOpset(),
    ConvertOpset(),
    RaiseErrors(),
    LiftOwnConstants(),
    ReinferShapes(),
    ExpandFunctions(),
    FoldConstants(),
    LiftConstants(),
    InferShapes(),
    FuseInt8(),
    RemoveSequences(),
    LowerGraph(),
    RaiseErrors(),
    AssignDevices(),
)
