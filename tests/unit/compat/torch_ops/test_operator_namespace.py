"""``torch.ops._caffe2``, in a process of its own, since PyTorch's operators are those of a process."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from caffe2_compat.torch_ops.importing import define_with_torch

{before}
define_with_torch()
define_with_torch()
assert ("torch" in sys.modules) == {imported}
import torch

ops = torch.ops._caffe2
print(ops.LengthsSum(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([1, 2], dtype=torch.int32)).tolist())
print(ops.Logit(torch.tensor([0.5]), eps=0.1).tolist(), ops.Logit(torch.tensor([0.5])).tolist())
values, mask = ops.PackSegments(torch.tensor([1, 2], dtype=torch.int32), torch.ones(3, 1), max_length=2)
print(values.flatten().tolist(), mask.tolist())
x = torch.zeros(2)
y = ops.AliasWithName(x, "y")
x[1] = 1
print(y.tolist())
lists = [torch.tensor(v, dtype=torch.int32) for v in ([1], [5], [2], [5, 6])]
print([t.tolist() for t in ops.MergeIdLists(lists)])
data, ranges = torch.tensor([1, 2, 3]), torch.tensor([[[0, 1], [1, 2]]], dtype=torch.int32)
print([t.tolist() for t in ops.GatherRangesToDense(data, ranges, None, [1, 2], 1, 0.5, 0.5)])
try:
    ops.IndexHash(torch.ones(1), 0, 3)
except RuntimeError as error:
    print(type(error).__name__)
"""
EXPECTED = """\
[[1.0], [6.0]]
[0.0] [0.0]
[1.0, 0.0, 1.0, 1.0] []
[0.0, 1.0]
[[2], [5, 6]]
[[[1]], [[2, 3]]]
ConversionError
"""


@pytest.mark.torch
@pytest.mark.parametrize("before", ["import torch", ""])
def test_operators_on_tensors(before: str) -> None:
    program = PROGRAM.format(before=before, imported=bool(before))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603 - the program above
    assert (done.stderr, done.stdout) == ("", EXPECTED)
