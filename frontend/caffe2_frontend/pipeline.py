"""The export, read from top to bottom."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_bridge.collector import CollectorPaused
from caffe2_bridge.passes import Pass, RaiseErrors, run_passes
from caffe2_frontend.analysis import ANALYSIS
from caffe2_frontend.passes.add_functions import AddFunctions
from caffe2_frontend.passes.check_model import CheckModel
from caffe2_frontend.passes.check_target import CheckTarget
from caffe2_frontend.passes.convert_float16 import ConvertFloat16
from caffe2_frontend.passes.convert_opset import ConvertOpset
from caffe2_frontend.passes.describe_model import DescribeModel
from caffe2_frontend.passes.eliminate_dead_code import EliminateDeadCode
from caffe2_frontend.passes.eliminate_redundancy import EliminateRedundancy
from caffe2_frontend.passes.expand_sigmoids import ExpandSigmoids
from caffe2_frontend.passes.fit_target import FitTarget
from caffe2_frontend.passes.fold_batchnorm import FoldBatchNorm, ReportBatchNorm
from caffe2_frontend.passes.fold_constants import FoldConstants
from caffe2_frontend.passes.merge_directions import MergeDirections
from caffe2_frontend.passes.metadata.origins import RecordOrigins
from caffe2_frontend.passes.metadata.states import RecordStates
from caffe2_frontend.passes.metadata.updates import RecordUpdates
from caffe2_frontend.passes.name_dims import NameDims
from caffe2_frontend.passes.name_nodes import NameNodes
from caffe2_frontend.passes.separate_quotients import SeparateQuotients
from caffe2_frontend.passes.separate_sums import SeparateSums
from caffe2_frontend.passes.sink_weights import SinkWeights
from caffe2_frontend.state import Export

COMPLETION: Final[tuple[Pass[Export], ...]] = (
    RaiseErrors(),
    EliminateRedundancy(),
    EliminateDeadCode(),
    MergeDirections(),
    FoldConstants(),
    ReportBatchNorm(),
    FoldBatchNorm(),
    SeparateSums(),
    SeparateQuotients(),
    ExpandSigmoids(),
    ConvertOpset(),
    RaiseErrors(),
    ConvertFloat16(),
    FitTarget(),
    CheckTarget(),
    RaiseErrors(),
    CheckModel(),
    SinkWeights(),
    RecordOrigins(),
    RecordStates(),
    RecordUpdates(),
    NameDims(),
    NameNodes(),
    DescribeModel(),
    AddFunctions(),
)

# For a model that is only run: no import reads origins, which take a tenth of the time.
_EXECUTION: Final = tuple(step for step in COMPLETION if not isinstance(step, RecordOrigins))

EXPORT: Final[tuple[Pass[Export], ...]] = (*ANALYSIS, *COMPLETION)

_ANALYZED: Final = frozenset[str]().union(*(step.ensures for step in ANALYSIS))


def finish(export: Export, *, origins: bool = True) -> ir.Model:
    """Run the second half of an export. The state that :func:`analyze` returned must not be used afterwards.

    Args:
        export: the state.
        origins: whether the nodes record the operators that they were converted from, which the import restores.

    Returns:
        The checked model; its weights are read from where they are stored when they are accessed.

    Raises:
        ConversionError: the net cannot be converted; holds every diagnostic, in net order.
        OptionError: the options ask for half precision, and onnxruntime is not installed.
    """
    model = complete(export, origins=origins).model
    assert model is not None  # RaiseErrors raised otherwise
    return model


def complete(export: Export, *, origins: bool = True) -> Export:
    """Finish as :func:`finish` does, and return the whole state: its findings include those of the second half."""
    with CollectorPaused():
        if origins:
            return run_passes(COMPLETION, export, held=_ANALYZED)
        return run_passes(_EXECUTION, export, held=_ANALYZED | RecordOrigins.ensures)
