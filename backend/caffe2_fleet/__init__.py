"""Fleets: many models, checked, exported and validated, on one machine or a cluster.

:func:`run` yields a result for each model; :func:`run_batch`, and ``caffe2-bridge batch``, also write a site of them.
Reading order: ``models`` (what there is to do), ``plan`` (what is left of it), ``engines`` (where it
runs), ``process`` (how one model runs), ``records`` and ``result``, ``site``.
"""

from caffe2_fleet.api import run
from caffe2_fleet.batch import Batch, run_batch
from caffe2_fleet.models.manifest import read_manifest
from caffe2_fleet.models.update_manifest import discover_manifest
from caffe2_fleet.models.write_manifest import write_manifest
from caffe2_fleet.result import ModelResult
from caffe2_fleet.task import ModelTask

__all__ = [
    "Batch",
    "ModelResult",
    "ModelTask",
    "discover_manifest",
    "read_manifest",
    "run",
    "run_batch",
    "write_manifest",
]
