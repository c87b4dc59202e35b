"""Write cases down as specs that ``scripts/record`` runs."""

from __future__ import annotations

from conformance.corpus import Array
from google.protobuf import text_format

from fuzz.exact.verdict import Verdict

_HEAD = '''"""{title}"""

import numpy as np
from google.protobuf import text_format
from numpy import inf, nan  # noqa: F401 - elements

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from conformance.recording import Spec

'''


def spec(verdict: Verdict, found: str) -> str:
    """The text of a spec file with one case; ``found`` is the command that finds it."""
    drawn = verdict.drawn
    assert drawn is not None
    title = f"{'+'.join(drawn.types)}: {verdict.outcome}. {found}"
    lines = [f"# {line}" for line in (*drawn.trail, *verdict.detail.splitlines()[:6])]
    inputs = "".join(f"    {name!r}: {_array(array)},\n" for name, array in drawn.inputs.items())
    kind = "op" if len(drawn.net.op) == 1 else "net"
    return (
        _HEAD.format(title=title.replace('"', "'"))
        + "\n".join(lines)
        + f"\nNET = text_format.Parse({text_format.MessageToString(drawn.net)!r}, NetDef())\n"
        + f"INPUTS = {{\n{inputs}}}\n"
        + f"CASES = [Spec({kind!r}, NET, INPUTS, {dict(drawn.quantized)!r})]\n"
    )


def _array(array: Array) -> str:
    dtype = "object" if array.dtype == object else f"np.{array.dtype.name}"
    dtype = "np.bool_" if array.dtype == bool else dtype
    return f"np.array({array.reshape(-1).tolist()!r}, {dtype}).reshape({array.shape!r})"
