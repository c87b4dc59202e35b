"""Changes of nets: operands added, dropped, repeated and shared, operators put before, behind and into branches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from conformance.recording import operator

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from fuzz.exact.drawing.drawn import Drawn

UNARY = ("Relu", "Sigmoid", "Tanh", "Copy", "Negative", "Abs", "Exp", "Sqr", "Softsign", "StopGradient")


def change_operands(drawn: Drawn, random: np.random.Generator) -> Drawn:
    """Drop, repeat or exchange operands of one operator, or let it write in place."""
    net = drawn.copy_net()
    op = net.op[int(random.integers(0, len(net.op)))]
    inputs = dict(drawn.inputs)
    count = len(op.input)
    match int(random.integers(0, 8)):
        case 0 if count:
            said = f"{op.type} loses its last input"
            del op.input[-1]
        case 1 if count:
            said = f"{op.type} reads an input again"
            op.input.append(op.input[int(random.integers(0, count))])
        case 2 if count > 1:
            here, there = (int(i) for i in random.choice(count, 2, replace=False))
            said = f"{op.type} reads input {there} as input {here} too"
            drawn = _exchanged(drawn, op.input[here], op.input[there], said)
            op.input[here] = op.input[there]
        case 3 if count > 1:
            here, there = (int(i) for i in random.choice(count, 2, replace=False))
            said = f"{op.type} exchanges inputs {here} and {there}"
            drawn = _exchanged(drawn, op.input[here], op.input[there], said)
            op.input[here], op.input[there] = op.input[there], op.input[here]
        case 4 if len(op.output) > 1:
            said = f"{op.type} loses its last output"
            del op.output[-1]
        case 5:
            said = f"{op.type} gains an output"
            op.output.append("extra")
        case _ if count and op.output:
            index, name = int(random.integers(0, len(op.output))), op.input[int(random.integers(0, count))]
            said = f"{op.type} writes output {index} over {name}"
            _rename_output(net, op.output[index], name)
        case _:
            return drawn
    outputs = [name for name in net.external_output if any(name in each.output for each in net.op)]
    del net.external_output[:]
    net.external_output.extend(outputs)
    return replace(drawn, net=net, inputs=inputs, trail=(*drawn.trail, said))


def _exchanged(drawn: Drawn, one: str, other: str, said: str) -> Drawn:
    """The case, whose operands do not go together unless both are floats of one shape."""
    arrays = [drawn.inputs[name] for name in (one, other) if name in drawn.inputs]
    alike = len({array.shape for array in arrays}) == 1 and [array.dtype.kind for array in arrays] == ["f", "f"]
    return drawn if alike else replace(drawn, unrelated=said)


def _rename_output(net: NetDef, old: str, new: str) -> None:
    for op in net.op:
        for names in (op.input, op.output):
            for index, name in enumerate(names):
                if name == old:
                    names[index] = new
    for index, name in enumerate(net.external_output):
        if name == old:
            net.external_output[index] = new


def add_operator(drawn: Drawn, random: np.random.Generator) -> Drawn:
    """Put an elementwise operator behind an output, or in front of an input."""
    net = drawn.copy_net()
    kind = str(random.choice(UNARY))
    outputs = list(drawn.outputs)
    floats = [name for name, array in drawn.inputs.items() if array.dtype == np.float32 and name not in drawn.quantized]
    del net.external_output[:]
    if outputs and (not floats or random.random() < 0.6):
        name = str(random.choice(outputs))
        net.op.append(operator(kind, [name], [f"{name}/{kind}"]))
        keeps = random.random() < 0.3
        net.external_output.extend([*(each for each in outputs if keeps or each != name), f"{name}/{kind}"])
        return replace(drawn, net=net, trail=(*drawn.trail, f"{kind} reads {name}"))
    if not floats:
        return drawn
    name = str(random.choice(floats))
    inputs = {f"{each}/raw" if each == name else each: array for each, array in drawn.inputs.items()}
    net.op.insert(0, operator(kind, [f"{name}/raw"], [name]))
    net.external_output.extend(outputs)
    return replace(drawn, net=net, inputs=inputs, trail=(*drawn.trail, f"{kind} makes {name}"))


def put_in_branch(drawn: Drawn, random: np.random.Generator) -> Drawn:
    """Put all operators into a branch of an If; the other one copies zeros of another size, or is absent."""
    outputs = drawn.outputs
    if not outputs or drawn.quantized:
        return drawn
    body = NetDef(name="branch", op=drawn.net.op)
    branch = operator("If", ["branch/condition", *drawn.inputs], outputs, then_net=body)
    net = NetDef(name="net", op=[branch], external_output=outputs)
    if random.random() < 0.5:
        twice = NetDef(name="other", op=drawn.net.op)
        branch.arg.add(name="else_net").n.CopyFrom(twice)
        net = NetDef(name="net", op=[branch], external_output=outputs)
    taken = bool(random.random() < 0.7) or len(branch.arg) == 1
    inputs = {**drawn.inputs, "branch/condition": np.array([taken])}
    return replace(drawn, net=net, inputs=inputs, trail=(*drawn.trail, "all operators are in a branch"))
