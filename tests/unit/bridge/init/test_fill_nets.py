"""Init nets as they are written: their size, and that real Caffe2 reads their bytes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from conformance.oracle.runs import oracle_environment, required_oracle

from caffe2_bridge.init.evaluate import evaluate_init_net
from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.init.init_net import read_init_net
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef

_RANDOM: Final = np.random.default_rng(11)
ARRAYS: Final = {
    "float32": _RANDOM.standard_normal((300, 40), dtype=np.float32),
    "int8": _RANDOM.integers(-128, 128, (300, 40)).astype(np.int8),
    "uint8": _RANDOM.integers(0, 256, (300, 40)).astype(np.uint8),
    "bool": _RANDOM.integers(0, 2, (300, 40)).astype(bool),
    "empty": np.zeros((0, 3), np.float32),
}
OTHERS: Final = {
    "float16": ARRAYS["float32"].astype(np.float16),
    "float64": ARRAYS["float32"].astype(np.float64),
    "int16": _RANDOM.integers(-(2**15), 2**15, 500).astype(np.int16),
    "int32": _RANDOM.integers(-(2**31), 2**31, 500).astype(np.int32),
    "int64": _RANDOM.integers(-(2**63), 2**63 - 1, 500),
    "uint16": _RANDOM.integers(0, 2**16, 500).astype(np.uint16),
}
# What a process of real Caffe2 runs: the bytes of the file go to its C++ parser as they are.
_RUN: Final = """
import sys
import numpy as np
from caffe2.python import core, workspace
core.GlobalInit(["caffe2", "--caffe2_log_level=2"])
workspace.C.run_net_once(open(sys.argv[1], "rb").read())
np.savez(sys.argv[2], **{name: workspace.FetchBlob(name) for name in sys.argv[3:]})
"""


def written(**arrays: np.ndarray[Any, Any]) -> bytes:
    parameters = [Parameter(name, array.dtype, array.shape, lambda a=array: a) for name, array in arrays.items()]
    return b"".join(fill_net(parameters, []))


@pytest.mark.parametrize("name", ["float32", "int8", "uint8", "bool"])
def test_parameters_take_the_space_of_their_elements(name: str) -> None:
    assert len(written(w=ARRAYS[name])) < 1.02 * ARRAYS[name].nbytes


def test_what_is_written_is_read() -> None:
    data = written(**ARRAYS, **OTHERS)
    for init in (data, NetDef.FromString(data)):
        parameters, findings = evaluate_init_net(read_init_net(init))
        assert not findings
        for name, array in (ARRAYS | OTHERS).items():
            values = parameters[name].load()
            assert values.dtype == array.dtype, name
            np.testing.assert_array_equal(values, array, err_msg=name)


@pytest.mark.oracle
def test_real_caffe2_reads_the_bytes(tmp_path: Path) -> None:
    arrays = {name: array for name, array in (ARRAYS | OTHERS).items() if name != "float16"}
    (tmp_path / "init.pb").write_bytes(written(**arrays))
    command = [required_oracle(), "-c", _RUN, tmp_path / "init.pb", tmp_path / "found.npz", *arrays]
    subprocess.run(command, env=oracle_environment(1), check=True, capture_output=True)  # noqa: S603 - of this file
    with np.load(tmp_path / "found.npz") as found:
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype, name
            np.testing.assert_array_equal(found[name], array, err_msg=name)
