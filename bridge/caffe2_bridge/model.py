"""A model: a predict net and what its parameters are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from google.protobuf.message import Message

from caffe2_bridge.init.init_net import InitNet, read_init_net
from caffe2_bridge.netdef.parameters import Arrays, Parameter
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef

# The shape of the fill that Caffe2's mobile exporter writes for each input, whatever the shape of the input is.
PLACEHOLDER_SHAPE: Final = (1, 1)


@dataclass(frozen=True, eq=False)
class Model:
    """A predict net with its parameters. Immutable: its protobufs are not to be changed either.

    Attributes:
        predict_net: the net that computes.
        init: the parameters, and what else makes them; ``init_net`` and ``params`` are views of it.
        source: where the model was read from, empty where it was made in memory.
    """

    predict_net: NetDef
    init: InitNet = field(default_factory=InitNet, repr=False)
    source: str = ""

    @classmethod
    def of(
        cls, predict_net: Message | bytes, init_net: Message | bytes | InitNet | None = None, source: str = ""
    ) -> Model:
        """A model of nets in memory: this project's or Caffe2's protobufs, or their bytes. Raises NetFormatError."""
        net = as_net_def(predict_net, "predict net")
        if init_net is None:
            init_net = InitNet()
        init = init_net if isinstance(init_net, InitNet) else read_init_net(init_net)
        return cls(net, init.with_inputs(placeholder_names(net, init.parameters)), source)

    @property
    def init_net(self) -> NetDef:
        """The net that makes the parameters, parsed on first use."""
        return self.init.net

    @cached_property
    def params(self) -> Mapping[str, np.ndarray[Any, np.dtype[Any]]]:
        """The constant parameters by name. Every access decodes the array anew: keep those that are used again."""
        return Arrays(self.init.parameters)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of what must be fed: the external inputs that the init net does not make, in order.

        Blobs that the predict net reads before it writes them, without declaring them, come last.
        """
        made = {name for op in self.init.rest for name in op.outputs}.union(self.init.parameters)
        names = dict.fromkeys(name for name in self.predict_net.external_input if name not in made)
        for op in self.predict_net.op:
            names.update(dict.fromkeys(name for name in op.input if name not in made))
            made.update(name for name in op.output if name not in names)
        return tuple(names)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of the external outputs, in order."""
        return tuple(dict.fromkeys(self.predict_net.external_output))


def read_init(model: Model | InitNet | Message | bytes | None, predict_net: Message | bytes | None = None) -> InitNet:
    """The parameters and other operators of a model's init net, or of an init net in memory.

    With ``predict_net`` the fills of that net's inputs are told apart as placeholders, as in a model. Raises
    NetFormatError where ``model`` is nothing of the kind.
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
    """Inputs of the predict net that the init net fills all the same.

    Caffe2's mobile exporter lists the inputs first and gives each a fill of shape [1, 1] that holds one zero. Where
    every external input is filled, and the first of them is what the first operator reads first, that one is the
    input: its fill is the sample that was in the workspace when the net was exported.
    """
    external = list(dict.fromkeys(predict_net.external_input))
    names = []
    for name in external:
        parameter = parameters.get(name)
        if (
            parameter is None
            or parameter.shape != PLACEHOLDER_SHAPE
            or parameter.dtype != np.float32
            or parameter.load().any()
        ):
            break
        names.append(name)
    if external and not names and all(name in parameters for name in external) and predict_net.op:
        first = next(iter(predict_net.op[0].input), None)
        names = [external[0]] if external[0] == first else []
    return names
