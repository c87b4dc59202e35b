"""Fills against what real Caffe2 computed: every recorded case of a fill, alone or as an init net of one operator."""

from __future__ import annotations

import numpy as np
import pytest
from support.paths import GOLDEN
from support.recorded_cases import cases

from caffe2_bridge.init.fills import FILLS, RANDOM
from caffe2_bridge.init.init_net import FOLDED, InitNet, read_init_net
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef

TYPES = sorted(kind for kind in FOLDED if (GOLDEN / "ops" / f"{kind}.npz").is_file())


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
