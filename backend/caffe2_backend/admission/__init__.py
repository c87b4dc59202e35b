"""Admission of ONNX models: the only code that reads models from outside.

Every function here checks a model before native code or any reader of tensor values sees it: its graphs are
well-formed (:mod:`.structure`), its nodes have what native code takes for granted (:mod:`.native`), and every tensor
that is stored outside the model lies in a regular file inside the model's folder (:mod:`.external_data`).
"""

from caffe2_backend.admission.folders import AdmittedFile
from caffe2_backend.admission.load import OnnxModel, admit_file, load_graph, load_ir, load_proto

__all__ = ["AdmittedFile", "OnnxModel", "admit_file", "load_graph", "load_ir", "load_proto"]
