"""The import, read from top to bottom."""

from __future__ import annotations

from typing import Final

from caffe2_backend.passes.assign_devices import PlaceOnDevice
from caffe2_backend.passes.convert_opset import ConvertOpset
from caffe2_backend.passes.expand_functions import ExpandFunctions
from caffe2_backend.passes.flatten import InferShapes, InlineFunctions, LiftConstants
from caffe2_backend.passes.fold_constants import FoldConstants
from caffe2_backend.passes.lower_graph import LowerGraph
from caffe2_backend.passes.reinfer_shapes import ForgetClaims
from caffe2_backend.passes.remove_sequences import RemoveSequences
from caffe2_backend.passes.restore_operators import RestoreOperators
from caffe2_backend.state import Import
from caffe2_bridge.passes import Pass, RefuseFindings

IMPORT: Final[tuple[Pass[Import], ...]] = (
    RestoreOperators(),
    InlineFunctions(),
    ConvertOpset(),
    RefuseFindings(),
    ForgetClaims(),
    ExpandFunctions(),
    FoldConstants(),
    LiftConstants(),
    InferShapes(),
    RemoveSequences(),
    LowerGraph(),
    RefuseFindings(),
    PlaceOnDevice(),
)
