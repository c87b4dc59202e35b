"""The public name of :mod:`caffe2_compat.predictor_exporter`."""

import sys
from importlib import import_module

# The module itself, by a name that is no import: nothing of this package depends on what stands above it.
sys.modules[__name__] = import_module("caffe2_compat.predictor_exporter")
