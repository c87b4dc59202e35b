"""Models: a predict net with its parameters."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from google.protobuf.message import Message

from caffe2_bridge.control import all_operators
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.diagnostics.check_options import require_sequence
from caffe2_bridge.diagnostics.short_repr import short_repr
from caffe2_bridge.init.init_net import InitNet, read_init_net
from caffe2_bridge.init.needed import without_unneeded
from caffe2_bridge.netdef.parameters import Arrays, Parameter
from caffe2_bridge.netdef.replace import with_operators
from caffe2_bridge.netdef.views import NetView, as_net_def
from caffe2_bridge.operators.parameters import data_blobs
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.objects import final_objects
from caffe2_bridge.ssa.outputs import declared_outputs, needed_operators
from caffe2_bridge.training import computes_gradients

# Shapes of fills that stand for inputs of any shape: Caffe2's mobile exporter writes [1, 1], its Caffe translator [1].
PLACEHOLDER_SHAPES: Final = frozenset({(1, 1), (1,)})
_EXPORTED_SHAPE: Final = (1, 1)


@dataclass(frozen=True, eq=False)
class Model:
    """A predict net with its parameters. Immutable: do not change its protobufs.

    A model can be pickled and copied. Its parameters go along, also where it was read from a file: to have another
    process run a large model, send its path, and load it there.

    Attributes:
        predict_net: the net to run.
        init: the init net: constant parameters and other operators. ``init_net`` and ``params`` are views of it.
        source: the path or URL, without credentials, that the model was read from; empty for a model built in memory.

    Raises OptionError if ``predict_net`` is not a NetDef of this project, or ``init`` not an InitNet: :meth:`of` takes
    nets of any class.
    """

    predict_net: NetDef
    init: InitNet = field(default_factory=InitNet, repr=False)
    source: str = ""

    def __post_init__(self) -> None:
        for name, kind in (("predict_net", NetDef), ("init", InitNet)):
            if not isinstance(getattr(self, name), kind):
                given = type(getattr(self, name)).__name__
                raise OptionError(
                    f"{name} must be of type {kind.__name__}, not {given}: use Model.of(predict_net, init_net)"
                )

    @classmethod
    def of(
        cls, predict_net: Message | bytes, init_net: Message | bytes | InitNet | None = None, source: str = ""
    ) -> Model:
        """Make a model from nets in memory.

        Args:
            predict_net: a NetDef of this project or of Caffe2, or a serialized one.
            init_net: the same, or an InitNet; None for a model without parameters.
            source: the path to name in messages.

        Raises:
            NetFormatError: one of the nets is not a NetDef.
        """
        net = as_net_def(predict_net, "predict net")
        if init_net is None:
            init_net = InitNet()
        init = init_net if isinstance(init_net, InitNet) else read_init_net(init_net)
        return cls(net, init.with_inputs(placeholder_names(net, init.parameters)), source)

    def __repr__(self) -> str:
        net = self.predict_net
        return short_repr(
            self, net.name, inputs=self.inputs, outputs=self.outputs, operators=len(net.op),
            parameters=len(self.init.parameters), source=self.source,
        )  # fmt: skip

    def _repr_html_(self) -> str:
        from caffe2_bridge.diagnostics.html_repr import html_by

        return html_by("caffe2_backend.picture.notebook:model_html", self)

    def __reduce__(self) -> tuple[type[Model], tuple[NetDef, InitNet, str]]:
        return Model, (self.predict_net, self.init, self.source)

    @property
    def init_net(self) -> NetDef:
        """The init net as a protobuf, parsed on first use. Raises NetFormatError beyond protobuf's limit of 2 GB."""
        return self.init.net

    @cached_property
    def params(self) -> Mapping[str, np.ndarray[Any, np.dtype[Any]]]:
        """The constant parameters by name. Each access decodes the array again: keep a reference to reuse it."""
        return Arrays(self.init.parameters)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the blobs to feed: the external inputs that the init net does not write, in order.

        Undeclared blobs that the predict net reads before it writes them come last. Empty names are optional inputs
        that a carried ONNX node omits.
        """
        written = {name for op in self.init.rest for name in op.outputs}.union(self.init.parameters)
        names = dict.fromkeys(name for name in self.predict_net.external_input if name not in written)
        for op in self.predict_net.op:
            names.update(dict.fromkeys(name for name in op.input if name and name not in written))
            written.update(name for name in op.output if name not in names)
        return tuple(names)

    @cached_property
    def op_types(self) -> frozenset[str]:
        """The types of the operators of the predict net, without those in bodies."""
        return frozenset(op.type for op in self.predict_net.op)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of the external outputs that are tensors, in order."""
        return declared_outputs(self.predict_net)

    def with_inputs(self, names: Iterable[str]) -> Model:
        """Return the model in which these parameters are inputs; the same model if none is a parameter."""
        init = self.init.with_inputs(names)
        return self if init is self.init else Model(self.predict_net, init, self.source)

    def with_outputs(self, names: Iterable[str] | None) -> Model:
        """Return the model that declares and computes these outputs instead of its own; the same model for None.

        Operators that they do not need are left out, of the init net too.

        Raises OptionError if a name is neither a blob that the net writes nor an input or a parameter, or is not a
        tensor.
        """
        if names is None:
            return self
        require_sequence("outputs", names)
        net = NetDef()
        net.CopyFrom(self.predict_net)
        del net.external_output[:]
        net.external_output.extend(dict.fromkeys(names))
        known = {*net.external_input, *self.init.parameters, *(name for op in net.op for name in op.output)}
        objects = final_objects(net)
        for name in net.external_output:
            if name in objects:
                raise OptionError(f"output {name!r} is an object and not a tensor")
            if name not in known:
                raise OptionError(f"no operator writes output {name!r}")
        needed = needed_operators(net, net.external_output)
        if len(needed) == len(net.op):
            return Model(net, self.init, self.source)
        cut = with_operators(net, (net.op[index] for index in needed))
        unread = _read(net) - _read(cut) - set(cut.external_output)
        del cut.external_input[:]
        cut.external_input.extend(name for name in net.external_input if name not in unread)
        return Model(cut, self.init, self.source).without_unneeded()

    def without_unneeded(self, outputs: Iterable[str] | None = None) -> Model:
        """Return the model without operators of the init net that compute nothing that the predict net reads.

        What it reads for ``outputs`` counts; None for all that it reads.
        """
        if not self.init.rest:
            return self
        net = self.predict_net
        if outputs is not None:
            net = with_operators(net, [net.op[index] for index in needed_operators(net, outputs)])
        wanted = _read(net).union(net.external_output if outputs is None else outputs)
        return dataclasses.replace(self, init=without_unneeded(self.init, wanted))


def _read(net: NetDef) -> set[str]:
    """Return the blobs that the operators of a net, or of its bodies, read."""
    return {name for op in all_operators(NetView(net)) for name in op.inputs}


def read_init(model: Model | InitNet | Message | bytes | None, predict_net: Message | bytes | None = None) -> InitNet:
    """Read the parameters and other operators of an init net.

    Args:
        model: a model, or an init net: an InitNet, a NetDef of this project or of Caffe2, or a serialized one. None
            stands for an empty init net.
        predict_net: if given, fills of its inputs become placeholders instead of parameters, as in a model.

    Raises:
        NetFormatError: an argument is not a NetDef.
    """
    if model is None:
        return InitNet()
    if isinstance(model, Model):
        return model.init
    init = model if isinstance(model, InitNet) else read_init_net(model)
    if predict_net is None:
        return init
    net = as_net_def(predict_net, "predict net")
    return init.with_inputs(placeholder_names(net, init.parameters))


def placeholder_names(predict_net: NetDef, parameters: Mapping[str, Parameter]) -> list[str]:
    """Return the inputs of the predict net that the init net fills.

    Three cases are recognized. Caffe2's mobile exporter lists the inputs before the parameters and writes a fill of
    shape [1, 1] with the value 0 for each. Its Caffe translator, and scripts, write a fill with one element for an
    input in any position: operators read it as data, as the image of a Conv, not as a parameter. Other exporters store
    the sample that was in the workspace: if every external input is filled and the first one is also the first operand
    of the first operator, it is the input. A net that computes gradients was written by none of these: its init net
    fills parameters, among them numbers and counters of shape [1].
    """
    external = list(dict.fromkeys(predict_net.external_input)) or list(NetView(predict_net).read_first)
    names = list(itertools.takewhile(lambda name: _is_exported_fill(parameters.get(name)), external))
    tiny = [name for name in external if name in parameters and parameters[name].shape in PLACEHOLDER_SHAPES]
    if set(tiny).difference(names):
        data = data_blobs(NetView(predict_net).ops)
        names += [name for name in tiny if name in data and name not in names]
    if external and not names and all(name in parameters for name in external) and predict_net.op:
        first = next(iter(predict_net.op[0].input), None)
        names = [external[0]] if external[0] == first else []
    return [] if names and computes_gradients(predict_net) else names


def _is_exported_fill(parameter: Parameter | None) -> bool:
    """Return whether a fill is one that Caffe2's mobile exporter writes for an input."""
    return (
        parameter is not None
        and parameter.shape == _EXPORTED_SHAPE
        and parameter.dtype == np.float32
        and not parameter.load().any()
    )
