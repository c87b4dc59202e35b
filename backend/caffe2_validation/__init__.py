"""Validation: one model in several runtimes, or two models, and the first operator at which they disagree.

Reading order: ``options``, ``api`` (the outline), ``selection`` (runtimes), ``forms`` (net and ONNX model), ``inputs``,
``sides``, ``comparison``, ``diagnose`` (why sides disagree, with ``lockstep``), ``report``, ``render``.
``certify`` does this for fused recurrent operators, ``caffe2_fleet`` for many models.
"""

from caffe2_bridge.diagnostics import ConversionError, NetFormatError, OptionError, RunError
from caffe2_validation.api import run_validation, validate
from caffe2_validation.options import ValidationOptions
from caffe2_validation.report import BlobResult, Divergence, Failure, OptimizationFault, ValidationReport
from caffe2_validation.runtimes import RUNTIMES, Runtime, find_runtime
from caffe2_validation.sizes import Size
from caffe2_validation.values import Difference, Tolerance

__all__ = [
    "RUNTIMES",
    "BlobResult",
    "ConversionError",
    "Difference",
    "Divergence",
    "Failure",
    "NetFormatError",
    "OptimizationFault",
    "OptionError",
    "RunError",
    "Runtime",
    "Size",
    "Tolerance",
    "ValidationOptions",
    "ValidationReport",
    "find_runtime",
    "run_validation",
    "validate",
]
