"""ONNXWhile: ONNX's Loop, whose body has parameters and results by position."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from caffe2_bridge.control.description import Body, BodyScope, ControlOperator, Formal, Place, Result, Runs
from caffe2_bridge.proto.caffe2_pb2 import NetDef

_BODY: Final = "body"
_CARRIED: Final = "num_loop_carried_deps"
_OWN: Final = 2  # the trip count and the condition come before what is carried


class OnnxWhile(ControlOperator):
    """``ONNXWhile(trip_count, condition, carried..., ...) -> carried..., stacked...``."""

    types = ("ONNXWhile",)
    arguments: ClassVar = {_BODY: True}
    scope = BodyScope.NESTED
    runs = Runs.LOOP

    def _body(self, argument: str, net: NetDef) -> Body:
        formals = self._formals(net)
        return Body(argument, net, formals=formals, results=self._results(net, formals))

    @property
    def body(self) -> NetDef:
        """The net of an iteration."""
        return self.bodies[_BODY].net

    @property
    def carried(self) -> int:
        """The number of values that go from iteration to iteration."""
        carried = self.op.args.optional_integer(_CARRIED, -1)
        return max(len(self.op.inputs) - _OWN, 0) if carried == -1 else carried

    @property
    def formals(self) -> tuple[Formal, ...]:
        """The iteration, the condition, then what the loop carries."""
        return self.bodies[_BODY].formals

    def _formals(self, net: NetDef) -> tuple[Formal, ...]:
        own = [Formal(name, Place.HOST) for name in net.external_input[:_OWN]]
        names = list(net.external_input[_OWN : max(_OWN + self.carried, 0)])
        sources = self.op.inputs[_OWN:]
        carried = [Formal(name, source=source) for name, source in zip(names, sources, strict=False)]
        return *own, *carried, *(Formal(name, Place.HOST) for name in names[len(carried) :])

    def _results(self, net: NetDef, formals: tuple[Formal, ...]) -> tuple[Result, ...]:
        condition, carried = net.external_output[:1], list(net.external_output[1:])
        outputs = [*self.op.outputs, *[None] * len(carried)]
        next_values = [*formals[_OWN:], *[None] * len(carried)]
        found = [Result(*some) for some in zip(carried, next_values, outputs, strict=False)]
        return *(Result(name) for name in condition), *found

    @property
    def has_trip_count(self) -> bool:
        """Whether the first input limits the number of iterations."""
        return self.op.args.flag("has_trip_count", default=False)

    @property
    def has_condition(self) -> bool:
        """Whether the second input, and the body's first result, end the loop."""
        return self.op.args.flag("has_cond", default=False)

    @property
    def disables_scopes(self) -> bool:
        """Whether iterations run in the workspace around the operator: what the body writes can be read after it."""
        return self.op.args.flag("disable_scopes", default=False)

    def places(self) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
        """Return the places of operands: the trip count and the condition are on the host."""
        inputs, outputs = super().places()
        return (Place.HOST,) * len(inputs[:_OWN]) + inputs[_OWN:], outputs


def onnx_while_arguments(body: NetDef, *, carried: int, has_trip_count: bool, has_condition: bool) -> dict[str, Any]:
    """Return the arguments of an ONNXWhile whose body sees the blobs around it.

    Args:
        body: its external inputs are the iteration, the condition, the carried values and what it captures; its
            external outputs the condition, the carried values and the rows to stack.
        carried: the number of carried values.
        has_trip_count: whether the first operand limits the number of iterations.
        has_condition: whether the condition ends the loop.
    """
    return {
        _BODY: body,
        "has_trip_count": int(has_trip_count),
        "has_cond": int(has_condition),
        _CARRIED: carried,
        "disable_scopes": 1,  # Caffe2's own scopes hide the blobs around the body from it
    }
