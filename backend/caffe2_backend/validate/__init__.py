"""Validation: one model in several runtimes, or two models, and where they part."""

from caffe2_backend.validate.compare import Difference, Tolerance
from caffe2_backend.validate.inputs import Size
from caffe2_backend.validate.report import BlobResult, Divergence, Failure, ValidationReport
from caffe2_backend.validate.run import validate

__all__ = ["BlobResult", "Difference", "Divergence", "Failure", "Size", "Tolerance", "ValidationReport", "validate"]
