"""Caffe2's own Python programs on this project's runtime.

``hook`` brings Caffe2's Python files, which the user has, to a Python of today; ``extension`` implements the module
``caffe2.python.caffe2_pybind11_state`` that they import in place of Caffe2's C++ library.
"""

from caffe2_compat.hook.install import install_caffe2

__all__ = ["install_caffe2"]
