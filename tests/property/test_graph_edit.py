"""Edits of random nets against runs of them, and against brute-force readings of their definitions."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.devices.device_runs import POOL, Blob, mix, run, start, whole_nets, without_devices

from caffe2_bridge.devices import HOST
from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.graph_edit import (
    fuse_alias_placeholder,
    get_sub_graph_external_input_output,
    identify_reshape_sub_graph,
    remove_dead_end_ops,
    rename_op_input,
    rename_op_output,
)
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa import get_ssa

SETTINGS = settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def outputs_of(net: NetDef, inputs: dict[str, Blob] | None = None) -> list[int]:
    found = run(without_devices(net), inputs or start())
    return [found[name].value for name in net.external_output]


@SETTINGS
@given(whole_nets())
def test_without_dead_ends_the_outputs_are_the_same(net: NetDef) -> None:
    before = net.SerializeToString(deterministic=True)
    pruned = remove_dead_end_ops(net)
    assert net.SerializeToString(deterministic=True) == before
    assert outputs_of(pruned) == outputs_of(net)
    assert remove_dead_end_ops(pruned) == pruned


def pruned_slowly(net: NetDef) -> list[bytes]:
    """Take out an operator none of whose outputs is read or external, then look again."""
    ops = list(net.op)
    while True:
        ssa, versions = get_ssa(NetDef(op=ops, external_input=net.external_input))
        needed = {blob for reads, _ in ssa for blob in reads}
        needed |= {(name, versions.get(name, 0)) for name in net.external_output}
        dead = [index for index, (_, writes) in enumerate(ssa) if not needed.intersection(writes)]
        if not dead:
            return [op.SerializeToString(deterministic=True) for op in ops]
        del ops[dead[-1]]


@SETTINGS
@given(whole_nets(depth=0, most=12))
def test_dead_ends_are_those_of_the_definition(net: NetDef) -> None:
    assert [op.SerializeToString(deterministic=True) for op in remove_dead_end_ops(net).op] == pruned_slowly(net)


@SETTINGS
@given(whole_nets(), st.data())
def test_renames_change_names_alone(net: NetDef, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(net.op) - 1))
    op = net.op[index]
    kinds = [kind for kind, names in (("input", op.input), ("output", op.output)) if names]
    kind = data.draw(st.sampled_from(kinds))
    position = data.draw(st.integers(0, len(op.input if kind == "input" else op.output) - 1))
    new = data.draw(st.sampled_from((*POOL, "new")))
    init = NetDef(op=[OperatorDef(type="Make", output=[name]) for name in POOL])
    try:
        if kind == "input":
            renamed, made = rename_op_input(net, init, index, position, new, from_producer=True)
        else:
            renamed, made = rename_op_output(net, index, position, new), init
    except ConversionError:
        assert new in POOL or kind == "output"
        return
    assert made is not None
    field = renamed.op[index].input if kind == "input" else renamed.op[index].output
    assert field[position] == new
    inputs = dict(zip((op.output[0] for op in made.op), start().values(), strict=True))
    assert outputs_of(renamed, dict(inputs)) == outputs_of(net)


@SETTINGS
@given(whole_nets(depth=0), st.data())
def test_an_input_is_refused_where_others_read_it(net: NetDef, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(net.op) - 1))
    ssa, _ = get_ssa(net)
    readers = {reader for reader, (reads, _) in enumerate(ssa) if ssa[index][0][0] in reads}
    if readers == {index}:
        assert rename_op_input(net, None, index, 0, "new")[0].op[index].input[0] == "new"
    else:
        with pytest.raises(ConversionError, match="is also read by"):
            rename_op_input(net, None, index, 0, "new")


@SETTINGS
@given(whole_nets(depth=1), st.data())
def test_fused_aliases_hand_on_what_they_read(net: NetDef, data: st.DataObject) -> None:
    """Put an alias somewhere: the net computes the same under the alias's name."""
    at = data.draw(st.integers(0, len(net.op)))
    source = data.draw(st.sampled_from(POOL))
    alias = OperatorDef(type="AliasWithName", input=[source], output=["raw"])
    alias.arg.add(name="name", s=b"named")
    alias.arg.add(name="is_backward", i=1)
    with_alias = NetDef(op=[*net.op[:at], alias, *net.op[at:]], external_input=net.external_input)
    with_alias.external_output.extend([*net.external_output, "raw"])
    try:
        fused, _ = fuse_alias_placeholder(with_alias)
    except ConversionError:
        return
    assert "AliasWithName" not in {op.type for op in fused.op}
    assert fused.external_output[-1] == "named"
    plain = NetDef(op=with_alias.op, external_input=net.external_input, external_output=with_alias.external_output)
    plain.op[at].CopyFrom(OperatorDef(type="Copy", input=[source], output=["raw"]))
    inputs = start() | {"named": Blob(mix(source), HOST)}
    assert outputs_of(fused, inputs) == outputs_of(plain)


@SETTINGS
@given(whole_nets(depth=0), st.sets(st.integers(0, 6)))
def test_borders_of_a_part_are_those_of_the_definition(net: NetDef, chosen: set[int]) -> None:
    chosen = {index for index in chosen if index < len(net.op)}
    ssa, versions = get_ssa(net)
    made = [blob for index in sorted(chosen) for blob in ssa[index][1]]
    read = [blob for index in sorted(chosen) for blob in ssa[index][0]]
    other = [blob for index in range(len(ssa)) if index not in chosen for blob in ssa[index][0]]
    other += [(name, versions[name]) for name in net.external_output]
    inputs, outputs = get_sub_graph_external_input_output(net, chosen)
    assert inputs == list(dict.fromkeys(blob for blob in read if blob not in made))
    assert outputs == [blob for blob in made if blob in other]


@SETTINGS
@given(whole_nets(depth=0, most=12))
def test_reshapes_are_found_with_all_operators_on_a_path_from_data_to_shape(net: NetDef) -> None:
    ssa, _ = get_ssa(net)
    expected = []
    for index, op in enumerate(net.op):
        if op.type != "Reshape":
            continue
        data, shape = ssa[index][0]
        ahead, back = {data}, {shape}
        for _ in ssa:
            for reads, writes in ssa:
                if ahead.intersection(reads):
                    ahead.update(writes)
                if back.intersection(writes) and data not in writes:
                    back.update(reads)
        on_path = [
            other
            for other, (reads, writes) in enumerate(ssa)
            if ahead.intersection(reads) and back.intersection(writes) and data not in writes
        ]
        expected.append([*on_path, index])
    assert identify_reshape_sub_graph(net) == expected
