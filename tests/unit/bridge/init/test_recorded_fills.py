"""Fills against what real Caffe2 computed: every recorded case of a fill, alone or as an init net of one operator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.paths import GOLDEN

from caffe2_bridge.init.fills import FILLS, RANDOM
from caffe2_bridge.init.init_net import FOLDED, InitNet, read_init_net
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

TYPES = sorted(kind for kind in FOLDED if (GOLDEN / "ops" / f"{kind}.npz").is_file())


def cases(path: Path) -> Iterator[tuple[NetDef, dict[str, Parameter], dict[str, np.ndarray[Any, Any]], dict[str, Any]]]:
    with np.load(path) as data:
        for index, meta in enumerate(json.loads(data["meta"].tobytes())):
            proto = data[f"{index:03d}/proto"].tobytes()
            net = NetDef.FromString(proto) if meta["kind"] == "net" else NetDef(op=[OperatorDef.FromString(proto)])
            arrays = {}
            for side in ("in", "out"):
                for name in meta["inputs" if side == "in" else "outputs"]:
                    key = f"{side}/{name}"
                    if key in meta.get("strings", {}):
                        shape, values = meta["strings"][key]
                        array = np.empty(len(values), object)
                        array[:] = [value.encode("latin-1") for value in values]
                        arrays[key] = array.reshape(shape)
                    elif f"{index:03d}/{key}" in data:
                        arrays[key] = data[f"{index:03d}/{key}"]
            known = {
                name: Parameter(name, array.dtype, array.shape, array.copy, *meta.get("int8", {}).get(name, ()))
                for name, array in ((n, arrays[f"in/{n}"]) for n in meta["inputs"] if f"in/{n}" in arrays)
            }
            expected = {name: arrays[f"out/{name}"] for name in meta["outputs"] if f"out/{name}" in arrays}
            yield net, known, expected, meta


def read_both_ways(net: NetDef, known: dict[str, Parameter]) -> list[InitNet]:
    return [read_init_net(net, known), read_init_net(net.SerializeToString(), known)]


@pytest.mark.parametrize("kind", TYPES)
def test_fill_is_what_caffe2_computed(kind: str) -> None:
    compared = 0
    for net, known, expected, _ in cases(GOLDEN / "ops" / f"{kind}.npz"):
        for init in read_both_ways(net, known):
            assert not init.findings
            assert not init.rest
            for name, array in expected.items():
                parameter = init.parameters[name]
                values = parameter.load()
                assert (parameter.dtype, parameter.shape) == (array.dtype, array.shape)
                assert (values.dtype, values.shape) == (array.dtype, array.shape)
                if kind not in RANDOM:
                    np.testing.assert_array_equal(values, array)
                compared += 1
    assert compared


def test_golden_cases_exist_for_most_fills() -> None:
    assert set(TYPES) & set(FILLS) >= {"ConstantFill", "GivenTensorFill", "GivenTensorIntFill", "LengthsRangeFill"}


def test_fills_that_caffe2_refuses_are_findings() -> None:
    refused = 0
    for net, known, _, meta in cases(GOLDEN / "errors.npz"):
        if set(meta["types"]) <= set(FILLS):
            for init in read_both_ways(net, known):
                assert [finding.code for finding in init.findings] == ["bad-fill"], meta["error"]
                refused += 1
    assert refused
