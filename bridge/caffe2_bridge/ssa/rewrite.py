"""Convert nets to SSA form: each name has one writer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar, overload

from google.protobuf.message import Message

from caffe2_bridge.control import names_in_arguments
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.dataflow import check_effects
from caffe2_bridge.ssa.effects import NetEffects, analyse, keep_live
from caffe2_bridge.ssa.emit import emit, forget_copies, rewrite_own
from caffe2_bridge.ssa.version_names import Entry, Names, NetVersions

_Info = TypeVar("_Info")
_PREDICT: Final = Location("predict")
_INIT: Final = Location("init")


@overload
def ssa_rewrite(
    predict_net: Message | bytes, init_net: Message | bytes | None = None, value_info: None = None
) -> tuple[NetDef, NetDef | None]: ...
@overload
def ssa_rewrite(
    predict_net: Message | bytes, init_net: Message | bytes | None, value_info: Mapping[str, _Info]
) -> tuple[NetDef, NetDef | None, dict[str, _Info]]: ...
def ssa_rewrite(
    predict_net: Message | bytes,
    init_net: Message | bytes | None = None,
    value_info: Mapping[str, Any] | None = None,
) -> tuple[NetDef, NetDef | None] | tuple[NetDef, NetDef | None, dict[str, Any]]:
    """Convert nets to SSA form: new nets that compute the same and in which each name has one writer.

    Names that stay: external inputs, and those blobs of ``init_net`` that the predict net reads before it writes them;
    else the last version of each blob, external outputs above all. Where a blob is both, its input keeps the name and
    the output gets a new one at the same index of ``external_output``. The init net's blobs keep their names at their
    last version. New names (``<blob>_<number>``) occur nowhere in either net. A rewritten net is not changed again.

    Bodies see what they saw. An operator that lists a name in its inputs and outputs, and its bodies, share that name:

    * Operators that Caffe2 holds to work in place (``ScatterAssign``, ``SparseAdagrad`` ...), a ``While`` with what its
      nets write, and a ``Do`` with what it binds and does not wholly overwrite, *update* a blob. It keeps its name
      where the value before was made by one operator of the same net and read by no other; else a ``Copy`` just
      before puts the value under the new name. So such a name has two writers, of which the second alone reads what
      the first made, and all others read what the second made. Any other operator in place becomes one that is not.
    * What a ``While`` or its condition writes has one name through all iterations: read at entry, written last in the
      body; the versions between have names of their own. The same holds for blobs of a ``Do``'s net and of a step net.
    * The branches of an ``If`` write the same names: one that left a blob alone gets a ``Copy`` of its value (and an
      ``else_net`` is made) - unless no value was there, or the blob has one name through a loop around it.
    * A blob that is only perhaps written (in one branch, with no value before) cannot be copied and keeps its one name
      until it is surely written. Objects (stacks of workspaces, indices) keep their name when they are changed.
    * The operands of control operators, and the external blobs of their nets, are completed with what the nets use.

    With ``value_info``, a mapping by blob name, a third result is the mapping for the new net: an entry of a name that
    stays with an input describes that input, any other the last version of its blob.

    Raises ConversionError with all diagnostics of ``check_dataflow`` in both nets.
    """
    predict, init = NetDef(), None
    predict.CopyFrom(as_net_def(predict_net, "predict_net"))
    findings: list[Diagnostic] = []
    init_effects = None
    if init_net is not None:
        init = NetDef()
        init.CopyFrom(as_net_def(init_net, "init_net"))
        found: list[Diagnostic] = []
        init_effects = analyse(init, _INIT, found)
        findings += check_effects(init_effects, (), _INIT, found)
    made = init_effects.may if init_effects else {}
    found = []
    effects = analyse(predict, _PREDICT, found)
    findings += check_effects(effects, {*made, *(init.external_input if init else ())}, _PREDICT, found)
    if findings:
        raise ConversionError(findings)

    names = Names(_names(effects) | (_names(init_effects) if init_effects else set()))
    if init_effects:
        rewrite_own(init_effects, {}, init_effects.may, names)
    _rewrite_predict(predict, effects, made, names)
    for net in (predict, init):
        if net is not None:
            forget_copies(net)
    return (predict, init) if value_info is None else (predict, init, dict(value_info))


def rename_in_place(predict_net: NetDef) -> NetEffects:
    """Convert a predict net itself to SSA form as :func:`ssa_rewrite` does, but keep its errors for later passes.

    A blob that is read and has no value keeps its name there, and a body that cannot be parsed its names; an operator
    that lists an output twice still does. :func:`numbered` gives the former indices of its operators. Returns what the
    operators did before, under their old names.
    """
    effects = analyse(predict_net, _PREDICT, [])
    _rewrite_predict(predict_net, effects, {}, Names(_names(effects)))
    return effects


def _names(effects: NetEffects) -> set[str]:
    """Return the names of :func:`all_names` of a net whose effects are known."""
    net = effects.net
    names = {*net.external_input, *net.external_output}
    for proto, op in zip(net.op, effects.ops, strict=True):
        names.update(op.inputs)
        names.update(op.outputs)
        if proto.arg:
            names.update(names_in_arguments(proto))
    return names


def _rewrite_predict(predict: NetDef, effects: NetEffects, made: Collection[str], names: Names) -> None:
    declared = {*predict.external_input}
    for name in declared:
        names.claim(name)
    keep_live(effects, predict.external_output)
    # Without declared inputs, a blob that is read before it is surely written may hold a value at entry.
    found = {} if declared else {**effects.exposed, **effects.soft}

    def entry(name: str, sure: bool) -> Entry | None:
        if name in declared or name in made:
            return Entry(name, defined=True)
        return Entry(name, defined=sure) if name in found else None

    versions = NetVersions(effects, entry=entry, final=lambda _: None, names=names)
    emit(effects, versions, names)
    for position, name in enumerate(predict.external_output):
        if name in versions.last:
            predict.external_output[position] = versions.last[name].name
