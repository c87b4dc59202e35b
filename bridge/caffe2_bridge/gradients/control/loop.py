"""The gradient of While: a loop that runs as long as the forward loop has left a workspace, the last one first."""

from __future__ import annotations

from dataclasses import dataclass

from caffe2_bridge.control import While, while_arguments
from caffe2_bridge.gradients.control.bindings import DoBinding, gradient_net, gradient_op, zeros
from caffe2_bridge.gradients.control.do import DoGradient, differentiate_do
from caffe2_bridge.gradients.forward import Forward, SparseGradient
from caffe2_bridge.gradients.operator_maker import add_arguments, copy_operator, make_operator
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def while_gradient(op: Forward) -> None:
    """Make the gradient of a While whose body is one Do that keeps its workspaces and copies of outer blobs.

    ``<blob>_loop_grad`` goes from iteration to iteration. Of a blob that the body writes it is the gradient of the
    value at the end of the iteration, and becomes that of the value before; of a blob that the body only reads it is
    the sum so far. An iteration computes ``<blob>_step_grad``.

    The gradient can read what the body computes in local blobs, and the values of outer blobs at the end of the
    iteration. To run a net again and again, as training does, a body computes on local blobs and copies its results to
    the outer ones at the end: real Caffe2 replaces its own copies of outer blobs from run to run.
    """
    binding = _body(op)
    given: dict[str, str] = {}
    for name, gradient in zip(op.outputs, op.g_output, strict=True):
        if isinstance(gradient, SparseGradient):
            raise op.error(f"the gradient of output {name!r} is sparse; a dense one is needed")
        if gradient is not None:
            given[name] = gradient
    carrier = _Carriers(frozenset(given.values()))
    written, made = _differentiate(op, binding, carrier, [name for name in binding.outputs if name in given])
    read = [name for name in made.g_input if name not in written]

    for name in written:
        start = copy_operator(given[name], carrier(name)) if name in given else zeros(name, carrier(name))
        op.operators.append(start)
    op.operators += [zeros(name, carrier(name)) for name in read]
    condition = f"{binding.workspace}/gradient_cond"
    has_scope = make_operator("HasScope", [binding.workspace], [condition])
    op.operators.append(has_scope)

    body = [made.op]
    for name in written:
        step = made.g_input.get(name)
        body.append(zeros(carrier(name), carrier(name)) if step is None else copy_operator(step, carrier(name)))
    body += [
        OperatorDef(type="Sum", input=[carrier(name), made.g_input[name]], output=[carrier(name)]) for name in read
    ]
    carried = [carrier(name) for name in (*written, *read)]
    inputs = dict.fromkeys([condition, *carried, *made.op.input])
    outputs = dict.fromkeys([*carried, *made.op.output])
    result = gradient_op(op.proto, list(inputs), list(outputs))
    loop_net = While(OpView(op.proto, 0)).loop_net
    cond_net = NetDef(name=f"{loop_net.name or 'loop'}_grad_cond", op=[has_scope])
    add_arguments(result, while_arguments(gradient_net(loop_net, body), cond_net))
    op.operators.append(result)
    for index, name in enumerate(op.inputs):
        if index and (name in written or name in read):
            op.set_dense(index, carrier(name))
        elif index and name in given:
            op.set_dense(index, given[name])


@dataclass(frozen=True, slots=True)
class _Carriers:
    """The names of gradients that go from iteration to iteration; they differ from those of incoming gradients."""

    taken: frozenset[str]

    def __call__(self, name: str) -> str:
        result = f"{name}_loop_grad"
        while result in self.taken:
            result += "_again"
        return result


def _body(op: Forward) -> DoBinding:
    """Return the Do that is the body. Raises GradientError where its iterations leave too little behind."""
    op.x(0)
    net = While(OpView(op.proto, 0)).loop_net
    if len(net.op) != 1 or net.op[0].type != "Do":
        raise op.error("its gradient needs a body that is one Do operator, which keeps what each iteration computes")
    binding = DoBinding.of(net.op[0])
    if binding.reuses_workspace:
        raise op.error("the Do of its body has 'reuse_workspace' set, so iterations overwrite what its gradient needs")
    if not binding.copies_external_blobs:
        raise op.error(
            "the Do of its body lacks 'copy_external_blobs': blobs that its gradient needs are gone after the loop"
        )
    return binding


def _differentiate(
    op: Forward, binding: DoBinding, carrier: _Carriers, written: list[str]
) -> tuple[list[str], DoGradient]:
    """Return the gradient of one iteration, and the blobs it writes whose gradients it needs.

    What an iteration reads the one before may have written: such a blob has a gradient at the iteration's end, too.
    """
    while True:
        made = differentiate_do(
            binding,
            {name: carrier(name) for name in written},
            op.differentiate,
            lambda name: f"{name}_step_grad",
            saves_external_blobs=True,
        )
        more = [name for name in binding.outputs if name in made.g_input and name not in written]
        if not more:
            return written, made
        written = [*written, *more]
