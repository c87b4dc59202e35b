"""The first half of the export: what a check runs, and what knows the inputs of a net."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from caffe2_bridge.collector import CollectorPaused
from caffe2_bridge.diagnostics.internal import faults_reported
from caffe2_bridge.files.model_argument import NetLike, as_model
from caffe2_bridge.model import Model
from caffe2_bridge.passes import Pass, run_passes
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.options import DEFAULTS, ExportOptions
from caffe2_frontend.passes.convert_to_ssa import ConvertToSsa
from caffe2_frontend.passes.describe_inputs import DescribeInputs
from caffe2_frontend.passes.explain_inputs import ExplainInputs
from caffe2_frontend.passes.lower_net import LowerNet
from caffe2_frontend.prepare import prepare
from caffe2_frontend.state import Export
from caffe2_frontend.tried_inputs import with_tried_inputs

# The element types and shapes of the inputs.
DESCRIPTION: Final[tuple[Pass[Export], ...]] = (
    ConvertToSsa(),
    DescribeInputs(),
)

# Every diagnostic of a net is reported here: the check ends with it.
ANALYSIS: Final[tuple[Pass[Export], ...]] = (
    *DESCRIPTION,
    LowerNet(),
    ExplainInputs(),
)


def describe_inputs(
    predict_net: NetLike | Model, init_net: NetLike | None = None, options: ExportOptions = DEFAULTS
) -> Mapping[str, TensorInfo]:
    """Return what is known of each input of a net: from options, from the net, and from how operators read the input.

    Raises:
        NetFormatError: an argument is not a net, or a file cannot be read.
        OptionError: an option names a blob that the net does not have.
        ConversionError: a plan cannot be converted to one net.
    """
    return run_passes(DESCRIPTION, _prepared(predict_net, init_net, options)).inputs


def analyze(predict_net: NetLike | Model, init_net: NetLike | None = None, options: ExportOptions = DEFAULTS) -> Export:
    """Run the first half of an export, which reports every diagnostic.

    Args:
        predict_net: a path, a loaded model, a NetDef, its bytes, or a PlanDef.
        init_net: the net that fills the parameters, or its path; not with a loaded model, which has its own.
        options: the options of the export.

    Returns:
        The state of the export: its ``findings``, and its ``model`` unless one of them is an error.
        :func:`caffe2_frontend.finish` completes the model.

    Raises:
        NetFormatError: an argument is not a net, or a file cannot be read.
        OptionError: an option names a blob that the net does not have.
        ConversionError: a plan cannot be converted to one net.
    """
    with CollectorPaused():
        with faults_reported():
            model = as_model(predict_net, init_net)  # once: an input that is tried does not read files again
        # The states before the last one are not held: each has a copy of the net.
        export = run_passes(ANALYSIS, _prepared(model, None, options))

        def again(described: Mapping[str, TensorInfo]) -> Export:
            known = replace(options, inputs={**options.inputs, **described})
            return run_passes(ANALYSIS, _prepared(model, None, known))

        return with_tried_inputs(export, again)


def _prepared(predict_net: NetLike | Model, init_net: NetLike | None, options: ExportOptions) -> Export:
    with faults_reported():
        return prepare(predict_net, init_net, options)
