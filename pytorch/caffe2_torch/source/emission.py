"""Write the statements of a net: operators one after another, If and While as Python's, step nets as methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import torch

from caffe2_bridge.control import Do, If, RecurrentNetwork, While
from caffe2_bridge.diagnostics import BridgeError, Diagnostic
from caffe2_bridge.netdef.unread_arguments import unread_arguments
from caffe2_torch.evaluation.op import RefusedError
from caffe2_torch.evaluation.program import Program, ProgramStep
from caffe2_torch.source.emitters import emitters
from caffe2_torch.source.module_state import ModuleState
from caffe2_torch.source.names import Identifiers, exact, plain, quoted
from caffe2_torch.source.op import FirstOfMany, Source, SourceOp, Unpacked
from caffe2_torch.source.record import UNKNOWN, Fact, Record
from caffe2_torch.source.recurrent_method import Loop, read_loop
from caffe2_torch.source.scope import NameScope, Scopes
from caffe2_torch.source.text import indented, listed

_TENSOR: Final = torch.empty(0)
_CONTROL: Final = (If, While, Do, RecurrentNetwork)
# Operators that take the number of a step as a Python integer.
_COUNTED: Final = ("LSTMUnit", "GRUUnit")
_HINT: Final = (
    "choose outputs that do not need it; to_torch makes a module without source of any operator that it supports"
)


def missing_emitters(program: Program) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each operator that has no source, in bodies too."""
    for step in program.steps:
        if not isinstance(step.control, _CONTROL) and step.view.type not in (*emitters(), "CreateScope"):
            reason = f"operator {step.view.type!r} has no PyTorch source"
            yield Diagnostic("unknown-operator", reason, step.location, hint=_HINT)
        for body in step.bodies.values():
            yield from missing_emitters(body)


@dataclass
class Emission:
    """The source of a module while it is written.

    Attributes:
        state: the attributes of the module.
        record: what a run saw.
        variables: the identifiers of blobs.
        methods: the methods of step nets, each its lines.
        findings: what has no source.
        device: the source of a ``device=`` argument, in what is written now.
    """

    state: ModuleState
    record: Record
    variables: Identifiers
    scopes: Scopes
    methods: list[list[str]] = field(default_factory=list)
    findings: list[Diagnostic] = field(default_factory=list)
    device: str = ""

    def read(self, scope: NameScope, name: str) -> str:
        """Return the expression of a blob."""
        outer = scope.outer(name)
        if outer is not None and scope.parent is not None:
            found = self.read(scope.parent, outer)
            if not found.startswith("self."):
                scope.read_outside.setdefault(found)
            return found
        key = scope.key(name)
        if self.state.constant(key) is not None:
            return self.parameter(str(key))
        if key not in self.state.writes and not isinstance(self.state.values.get(str(key), _TENSOR), torch.Tensor):
            raise RefusedError(f"the parameter {name!r} is not a tensor")
        return self.variables.of(key, name)

    def parameter(self, blob: str) -> str:
        """Return the expression of a parameter of the net, possibly an Int8 tensor."""
        found = self.state.attribute(blob)
        return self.quantized(found, self.state.scalings[blob]) if blob in self.state.scalings else found

    def quantized(self, data: str, scaling: tuple[float, int]) -> str:
        """Return the expression of an Int8 tensor."""
        self.state.helpers.add("Quantized")
        return f"Quantized({data}, {exact(scaling[0])}, {scaling[1]})"

    def write(self, scope: NameScope, name: str) -> str:
        """Return the variable of a blob."""
        outer = scope.outer(name)
        if outer is not None and scope.parent is not None:
            if scope.bound is None:
                raise RefusedError(f"the step net writes the blob {outer!r} of the net around it")
            return self.write(scope.parent, outer)
        return self.variables.of(scope.key(name), name)

    def statements(self, program: Program, scope: NameScope) -> list[str]:
        """Return the statements of a net. What has no source is appended to ``findings``."""
        lines = []
        for step in program.steps:
            try:
                lines += self._statement(step, scope)
            except (RefusedError, BridgeError) as error:
                self.findings.append(Diagnostic("unsupported", str(error), step.location, hint=_HINT))
        return lines

    def _statement(self, step: ProgramStep, scope: NameScope) -> list[str]:
        control = step.control
        if isinstance(control, If):
            return self._branch(step, control, scope)
        if isinstance(control, While):
            return self._while(step, control, scope)
        if isinstance(control, Do):
            if control.keeps_blobs:
                raise RefusedError("a Do that finds the blobs of an earlier run is not supported")
            ((argument, body),) = step.bodies.items()
            return self.statements(body, self.scopes.inside(step, argument, scope))
        if isinstance(control, RecurrentNetwork):
            return self._recurrent(step, control, scope)
        if step.view.type == "CreateScope":
            return []
        return self._operator(step, scope)

    def _branch(self, step: ProgramStep, control: If, scope: NameScope) -> list[str]:
        lines = [f"if {self.read(scope, step.view.inputs[0])}:"]
        then, other = (self._body(step, control.taken(condition=taken), scope) for taken in (True, False))
        lines += indented(then or ["pass"])
        return [*lines, "else:", *indented(other)] if other else lines

    def _while(self, step: ProgramStep, control: While, scope: NameScope) -> list[str]:
        test = self._body(step, control.condition_argument, scope)
        body = indented(self._body(step, control.loop_argument, scope) or ["pass"])
        condition = self.read(scope, step.view.inputs[0])
        if not test:
            return [f"while {condition}:", *body]
        return ["while True:", *indented([*test, f"if not {condition}:", "    break"]), *body]

    def _body(self, step: ProgramStep, argument: str, scope: NameScope) -> list[str]:
        """Return the statements of a body in the scope of its operator; none where it has no such body."""
        return self.statements(step.bodies[argument], scope) if argument in step.bodies else []

    def _operator(self, step: ProgramStep, scope: NameScope) -> list[str]:
        view = step.view
        emit = emitters()[view.type]
        facts = self.record.operands.get(id(step), ())
        view.args.read.clear()
        op = SourceOp(step, scope, partial(self.read, scope), facts, self.state, self.device)
        source = emit(op)
        unread = unread_arguments(view).unsupported
        if unread:
            raise RefusedError(f"argument {unread[0]!r} is not supported")
        return self._assigned(op, scope, source)

    def _assigned(self, op: SourceOp, scope: NameScope, source: Source) -> list[str]:
        outputs = op.step.view.outputs
        if isinstance(source, Unpacked):
            targets = [self.write(scope, name) if op.wants(i) else "_" for i, name in enumerate(outputs)]
            if isinstance(source, FirstOfMany) or targets[-2:] == ["_", "_"]:
                while targets[-1] == "_" and len(targets) > 1:
                    targets.pop()
                targets.append("*_")
            elif len(targets) == 1:
                targets[0] += ","
            return [f"{', '.join(targets)} = {source}{_comment(zip(targets, outputs, strict=False))}"]
        results = source if isinstance(source, tuple) else (source,)
        pairs = []
        for index, name in enumerate(outputs):
            found = results[index] if index < len(results) else None
            if found is None and op.wants(index):
                raise RefusedError(f"output {index} ({name!r}) is used, and has no source")
            if found is not None and name and (index == 0 or op.wants(index)):
                pairs.append((self.write(scope, name), found, name))
        pairs = [pair for pair in pairs if pair[0] != pair[1]]
        if not pairs:
            return []
        left, right = ", ".join(pair[0] for pair in pairs), ", ".join(pair[1] for pair in pairs)
        return [f"{left} = {right}{_comment((pair[0], pair[2]) for pair in pairs)}"]

    def _recurrent(self, step: ProgramStep, control: RecurrentNetwork, scope: NameScope) -> list[str]:
        """Return a method with a loop over the rows of the sequence, and its call."""
        loop = read_loop(control, lambda name: self.state.reads[scope.key(name)] > 0)
        ((argument, body),) = step.bodies.items()
        inside = self.scopes.inside(step, argument, scope)
        sequence = self.read(scope, step.view.inputs[0])
        around, self.device = self.device, f", device={sequence}.device"
        try:
            lines, results = self._loop(step, body, loop, scope, inside, sequence)
        finally:
            self.device = around
        name = self.state.names.of(("method", id(step)), f"{control.step_net.name or 'step'}_loop")
        arguments = ", ".join(name for name in dict.fromkeys((sequence, *inside.read_outside)) if "." not in name)
        title = quoted(step.view.name or control.step_net.name or "step net")
        head = [f"def {name}(self, {arguments}):", f'    """Run the step net {title} for each row of {sequence}."""']
        self.methods.append([*head, *indented([*lines, f"return {listed(results)}"])])
        targets = [self.write(scope, blob) for blob in loop.results]
        return [f"{listed(targets)} = self.{name}({arguments})"]

    def _loop(
        self, step: ProgramStep, body: Program, loop: Loop, scope: NameScope, inside: NameScope, sequence: str
    ) -> tuple[list[str], list[str]]:
        """Return the lines of the method of a step net, and the expressions that it returns."""
        lines: list[str] = []
        first: list[str] = []
        after: list[str] = []
        for state in loop.states:
            initial = self._outside(inside, scope, step.view.inputs[state.initial])
            previous, rows = self.read(inside, state.previous), self.variables.of((id(step), state.blob), state.rows)
            shape = f"{sequence}.shape[1]"
            facts = self.record.operands.get(id(step), ())
            rank = facts[state.initial].rank if state.initial < len(facts) else None
            if rank is None:
                raise RefusedError(f"the rank of the initial state of {state.blob!r} is not known")
            start = f"{initial}.expand(1, {shape}, -1)" if rank == 1 else f"{initial}.reshape(1, {shape}, -1)"
            first += [f"{previous} = {start}", f"{rows} = [{previous}]"]
            new = self.read(inside, state.next)
            reshaped = self._reshaped(body, state.next, f"{previous}.shape", new)
            after += [*reshaped, f"{rows}.append({new})", f"{previous} = {new}"]
        for kept in loop.kept:
            rows = self.variables.of((id(step), kept.external), f"{kept.internal.rsplit('/', 1)[-1]}_rows")
            first.append(f"{rows} = []")
            after.append(f"{rows}.append({self.read(inside, kept.internal)})")
        number = index = self.read(inside, loop.timestep)
        if any(loop.timestep in s.view.inputs and s.view.type not in _COUNTED for s in body.steps):
            index = self.variables.of((id(step), "index"), "step")
            lines.append(f"{number} = torch.tensor([{index}], dtype=torch.int32{self.device})")
        for link in loop.rows:
            outer = self._outside(inside, scope, link.external)
            lines.append(f"{self.read(inside, link.internal)} = {outer}[{index} : {index} + 1]")
        lines += self.statements(body, inside)
        lines = [*first, f"for {index} in range({sequence}.shape[0]):", *indented([*lines, *after])]
        results = []
        for blob in loop.results:
            source, offset = loop.source(blob)
            rows = self.variables.of((id(step), source))
            if offset == -1:
                results.append(f"{rows}[-1]")
                continue
            # The first rows are cut off afterwards, so that there is one to concatenate if the sequence is empty.
            part = f"{rows}[{offset}:]" if offset is not None and offset < 0 else rows
            results.append(f"torch.cat({part})" + (f"[{offset}:]" if offset is not None and offset > 0 else ""))
        return lines, results

    def _outside(self, inside: NameScope, scope: NameScope, name: str) -> str:
        found = self.read(scope, name)
        if not found.startswith("self."):
            inside.read_outside.setdefault(found)
        return found

    def _reshaped(self, body: Program, name: str, shape: str, variable: str) -> list[str]:
        """Return a statement that gives a row the shape of the state, unless a run saw that it has it."""
        for step in body.steps:
            if name in step.view.outputs:
                facts = self.record.results.get(id(step), ())
                index = list(step.view.outputs).index(name)
                fact: Fact = facts[index] if index < len(facts) else UNKNOWN
                if fact.rank == 3:
                    return []
        return [f"{variable} = {variable}.reshape({shape})"]


def _comment(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a comment with the names of blobs that their variables do not tell."""
    told = [quoted(name) for variable, name in pairs if name and variable not in ("_", plain(name))]
    return f"  # {', '.join(told)}" if told else ""
