"""Validation: one model in several runtimes, or two models, and where they part."""

from caffe2_backend.validation.api import validate
from caffe2_backend.validation.compare import Difference, Tolerance
from caffe2_backend.validation.report import BlobResult, Divergence, Failure, ValidationReport
from caffe2_backend.validation.sizes import Size

__all__ = ["BlobResult", "Difference", "Divergence", "Failure", "Size", "Tolerance", "ValidationReport", "validate"]
