"""Rename single blobs, and remove placeholders that only carry a name."""

from __future__ import annotations

from collections.abc import Sized
from operator import index as as_index
from typing import Final, SupportsIndex

from google.protobuf.message import Message

from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic
from caffe2_bridge.graph_edit.value_numbering import Slots, illegal, location_of, rename_slots, with_ops
from caffe2_bridge.netdef.views import ArgumentError, OpView, as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import effects_of

_PREDICT: Final = "predict"
_INIT: Final = "init"
_ALIAS: Final = "AliasWithName"


def rename_op_input(
    predict_net: Message | bytes,
    init_net: Message | bytes | None,
    op_id: int,
    input_id: int,
    new_name: str,
    from_producer: bool = False,
) -> tuple[NetDef, NetDef | None]:
    """Rename what an operator reads, wherever this version of the blob is: its producer, external lists, bodies, init.

    Args:
        predict_net: the net.
        init_net: the net that makes its parameters: follows where the blob comes from there.
        op_id: index of the operator.
        input_id: index of the input.
        new_name: the name; it may be in use where that changes no value that any operator reads.
        from_producer: rename it also where other operators read this version.

    Returns:
        New nets. Raises ConversionError where other operators read the blob and ``from_producer`` is false, or where
        the new name would change what an operator reads; BridgeError if the operator or input does not exist, or an
        argument is not an index or a name.
    """
    predict = as_net_def(predict_net, "predict_net")
    op_id, input_id = _index(op_id, "op_id"), _index(input_id, "input_id")
    _require_name(new_name)
    proto = _operator(predict, op_id)
    _operand(proto.input, input_id, "input", op_id)
    slots = Slots(effects_of(predict, _PREDICT))
    slot = slots.reads[op_id][input_id]
    if not from_producer:
        _require_one_reader(slots, slot, op_id, proto.input[input_id])
    return _rename(init_net, slots, {slots.root(slot): new_name}, frozenset())


def rename_op_output(predict_net: Message | bytes, op_id: int, output_id: int, new_name: str) -> NetDef:
    """Rename what an operator writes, wherever this version of the blob is read.

    Returns:
        A new net. Raises as :func:`rename_op_input` does, and ConversionError where the blob is updated in place and so
        shares its name with an external input.
    """
    predict = as_net_def(predict_net, "predict_net")
    op_id, output_id = _index(op_id, "op_id"), _index(output_id, "output_id")
    _require_name(new_name)
    proto = _operator(predict, op_id)
    _operand(proto.output, output_id, "output", op_id)
    slots = Slots(effects_of(predict, _PREDICT))
    root = slots.root(slots.writes[op_id][output_id])
    entry = next((name for name, slot in slots.entry.items() if slots.root(slot) == root), None)
    if entry is not None:
        raise illegal(
            f"output {proto.output[output_id]!r} is an update of external input {entry!r} and must share its name",
            location_of(_PREDICT, proto, op_id),
            _how_to_rename_input(slots, root, entry, op_id, new_name),
        )
    return rename_slots(slots, {root: new_name}, _PREDICT, frozenset())


def _how_to_rename_input(slots: Slots, root: int, name: str, op_id: int, new_name: str) -> str:
    """Return the call that renames an external input: an operator may use it in its bodies alone, undeclared."""
    call = "rename_op_input(predict_net, init_net, {}, {}, {!r}, from_producer=True)"
    for index, (proto, reads) in enumerate(zip(slots.effects.net.op, slots.reads, strict=True)):
        for position, slot in enumerate(reads):
            if proto.input[position] == name and slots.root(slot) == root:
                return "rename the input: " + call.format(index, position, new_name)
    position = len(slots.effects.net.op[op_id].input)
    declare = f"declare it: predict_net.op[{op_id}].input.append({name!r})"
    return f"{declare}; then rename the input: {call.format(op_id, position, new_name)}"


def fuse_alias_placeholder(
    predict_net: Message | bytes, init_net: Message | bytes | None = None
) -> tuple[NetDef, NetDef | None]:
    """Remove every ``AliasWithName``: its input and its output get the name in its argument.

    With ``is_backward`` other operators may read its input, and are renamed with it. Without it they are refused, in
    one ConversionError with all errors. The nets are new.
    """
    predict = as_net_def(predict_net, "predict_net")
    aliases = frozenset(index for index, op in enumerate(predict.op) if op.type == _ALIAS)
    for index in aliases:
        proto = predict.op[index]
        if len(proto.input) != 1 or len(proto.output) != 1:
            raise illegal("the operator must have one input and one output", location_of(_PREDICT, proto, index))
    effects = effects_of(predict, _PREDICT)
    slots, apart = Slots(effects, aliases), Slots(effects)
    readers = apart.readers()
    names: dict[int, str] = {}
    findings: list[Diagnostic] = []
    for index in sorted(aliases):
        proto = predict.op[index]
        slot = slots.reads[index][0]
        try:
            args = OpView(proto, index).args
            name, is_backward = args.text("name"), args.flag("is_backward", default=False)
        except ArgumentError as error:
            findings.append(Diagnostic("invalid-argument", str(error), location_of(_PREDICT, proto, index)))
            continue
        others = readers[apart.reads[index][0]] - {index}
        if others and not is_backward:
            hint = "add the argument is_backward=1 to the alias: the other operators are renamed with it"
            findings += _several(proto.input[0], index, others, predict, hint).findings
        known = names.setdefault(slots.root(slot), name)
        if known != name:
            reason = f"{proto.input[0]!r} cannot be renamed to both {known!r} and {name!r}"
            hint = "give the aliases of one blob one name, or remove all but one of them"
            findings += illegal(reason, location_of(_PREDICT, proto, index), hint).findings
    if findings:
        raise ConversionError(findings)
    predict, init = _rename(init_net, slots, names, aliases)
    kept = [op for index, op in enumerate(predict.op) if index not in aliases]
    return with_ops(predict, kept), init


def _rename(
    init_net: Message | bytes | None,
    slots: Slots,
    names: dict[int, str],
    identities: frozenset[int],
) -> tuple[NetDef, NetDef | None]:
    result = rename_slots(slots, names, _PREDICT, identities)
    if init_net is None:
        return result, None
    init = as_net_def(init_net, "init_net")
    made = Slots(effects_of(init, _INIT))
    follow = {
        made.root(made.last[name]): names[slots.root(slot)]
        for name, slot in slots.entry.items()
        if name in made.last and names.get(slots.root(slot), name) != name
    }
    return result, rename_slots(made, follow, _INIT, frozenset())


def _require_one_reader(slots: Slots, slot: int, op_id: int, name: str) -> None:
    others = slots.readers().get(slot, set()) - {op_id}
    if others:
        raise _several(name, op_id, others, slots.effects.net, "rename it for all readers with from_producer=True")


def _several(name: str, op_id: int, others: set[int], net: NetDef, hint: str) -> ConversionError:
    first = min(others)
    reader = location_of(_PREDICT, net.op[first], first)
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return illegal(
        f"{name!r} is also read by {reader}{more}",
        location_of(_PREDICT, net.op[op_id], op_id),
        hint,
    )


def _index(value: SupportsIndex, argument: str) -> int:
    try:
        return as_index(value)
    except TypeError:
        raise BridgeError(f"{argument} must be an integer, not {value!r}") from None


def _require_name(new_name: object) -> None:
    if not isinstance(new_name, str) or not new_name:
        raise BridgeError(f"new_name must be a blob name that is not empty, not {new_name!r}")


def _operator(net: NetDef, op_id: int) -> OperatorDef:
    if not 0 <= op_id < len(net.op):
        raise BridgeError(f"operator index {op_id} is out of range for a net of {len(net.op)} operators")
    return net.op[op_id]


def _operand(names: Sized, position: int, what: str, op_id: int) -> None:
    count = len(names)
    if not 0 <= position < count:
        raise BridgeError(f"operator {op_id} has no {what} {position}: it has {count}")
