"""Nets under construction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, overload

from google.protobuf.message import Message

from caffe2_bridge.builder.initializers import XAVIER, Initializer
from caffe2_bridge.builder.scope import Blob, Scope
from caffe2_bridge.diagnostics import BuildError
from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.init.init_net import read_init_net
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.construct import make_operator
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef, OperatorDef

Names: TypeAlias = str | Sequence[str]
_FIRST_SUFFIX: Final = 2  # the second blob of one name is NAME_2, as in Caffe2


@dataclass(slots=True)
class _Family:
    """What a net shares with its children: the scope they are in, and the parameters."""

    seed: int
    scope: Scope = field(default_factory=Scope)
    init: NetDef = field(default_factory=NetDef)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)


class Net:
    """A net that grows by one operator at a time, and the parameters that it reads.

    Operators are added by their type as a method, ``net.FC([x, w, b], "y", axis=2)``, or by ``net.op("FC", ...)``. Text
    names a blob within the current name scope; a ``Blob``, which is what every method returns, is a whole name. A blob
    that is read before the net makes it becomes an external input.

    Args:
        name: the net's name.
        seed: what the random initial values of parameters depend on, together with their names.
    """

    def __init__(self, name: str = "net", *, seed: int = 0) -> None:
        self._proto = NetDef(name=name)
        self._family = _Family(seed, init=NetDef(name=f"{name}_init"))
        self._parent: Net | None = None
        self._defined: dict[str, None] = {}
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}  # the next to try, by the name before it

    @property
    def name(self) -> str:
        """The net's name."""
        return self._proto.name

    @property
    def proto(self) -> NetDef:
        """The net itself. It goes on growing, and is not to be changed but through this object."""
        return self._proto

    @property
    def init_net(self) -> NetDef:
        """The net that fills the parameters, those of children included: one seeded fill operator each."""
        return self._family.init

    def model(self) -> Model:
        """The net as it is now, with its parameters: drawn here and written out, so that every runtime has the same."""
        init = read_init_net(self._family.init)
        rest = (op.proto for op in init.rest)
        return Model.of(
            copy_net(self, "net"), b"".join(fill_net(init.parameters.values(), rest, self._family.init.name))
        )

    def child(self, name: str) -> Net:
        """A new net for a body or a step of this one: the same scopes and parameters, no operators."""
        net = Net(name)
        net._family = self._family
        net._parent = self
        return net

    @property
    def device(self) -> DeviceOption | None:
        """The device of the current device scope."""
        return self._family.scope.device

    @contextmanager
    def name_scope(self, name: str, *, shares_parameters: bool = False) -> Iterator[None]:
        """Within the block, blobs of this net, its parents and children are named ``name/...``; nests.

        With ``shares_parameters`` parameters are named as outside of the block. An empty name changes nothing.
        """
        before = self._family.scope
        self._family.scope = before.enter(name, shares_parameters=shares_parameters)
        try:
            yield
        finally:
            self._family.scope = before

    @contextmanager
    def device_scope(self, device: DeviceOption | None) -> Iterator[None]:
        """Within the block, new operators and fills are given this device option."""
        before = self._family.scope
        self._family.scope = before.on(device)
        try:
            yield
        finally:
            self._family.scope = before

    def blob(self, name: str) -> Blob:
        """The whole name that ``name`` stands for in the current scope."""
        return self._family.scope.blob(name)

    def defines(self, name: str) -> bool:
        """Whether ``name`` (in the current scope) is an external input or is written by an operator."""
        return self.blob(name) in self._defined

    @property
    def lexical_scope(self) -> tuple[str, ...]:
        """Every blob that a body of this net sees: those of the net, and of the nets it is a child of."""
        outer = () if self._parent is None else self._parent.lexical_scope
        return tuple(dict.fromkeys((*outer, *self._family.shapes, *self._defined)))

    def unique_name(self, name: str) -> Blob:
        """``name`` in the current scope, or ``name_auto_0``, ``name_auto_1``, ... where a blob has it already."""
        base = self.blob(name)
        return self._first_free(base, 0, lambda number: base + f"_auto_{number}")

    def next_name(self, prefix: str, suffix: str = "") -> Blob:
        """``<net>/<prefix>`` in the current scope, or the same with ``_2``, ``_3``, ...: no blob has it yet."""
        base = self.blob(f"{self.name}/{prefix}")
        return self._first_free(base + suffix, _FIRST_SUFFIX, lambda number: base + f"_{number}{suffix}")

    def _first_free(self, name: Blob, first: int, numbered: Callable[[int], Blob]) -> Blob:
        candidate = name
        number = self._numbers.get(name, first)
        while candidate in self._taken or candidate in self._defined:
            candidate = numbered(number)
            number += 1
        self._numbers[name] = number
        self._taken.add(candidate)
        return candidate

    def add_external_input(self, *names: str) -> tuple[Blob, ...]:
        """Declare blobs that are there before the net runs. One that an operator makes already is a BuildError."""
        blobs = tuple(map(self.blob, names))
        for blob in blobs:
            if blob not in self._defined:
                self._defined[blob] = None
                self._proto.external_input.append(blob)
            elif blob not in self._proto.external_input:
                raise BuildError(f"net {self.name!r} makes {str(blob)!r} itself: it cannot be an external input")
        return blobs

    def add_external_output(self, *names: str) -> tuple[Blob, ...]:
        """Declare results of the net; each once."""
        blobs = tuple(map(self.blob, names))
        known = set(self._proto.external_output)
        self._proto.external_output.extend(blob for blob in dict.fromkeys(blobs) if blob not in known)
        return blobs

    def param(self, name: str, shape: Sequence[int], initializer: Initializer = XAVIER) -> Blob:
        """A parameter: filled by the init net when it is first asked for, shared when it is asked for again.

        Raises BuildError where it exists with another shape.
        """
        blob = self._family.scope.parameter(name)
        sizes = tuple(int(size) for size in shape)
        known = self._family.shapes.get(blob)
        if known is None:
            self._family.init.op.extend(initializer.operators(blob, sizes, self._family.seed, self.device))
            self._family.init.external_output.append(blob)
            self._family.shapes[blob] = sizes
        elif known != sizes:
            raise BuildError(f"parameter {str(blob)!r} has the shape {list(known)}, not {list(sizes)}")
        return blob

    @overload
    def op(self, type: str, inputs: Names = ..., outputs: str | None = ..., **options: Any) -> Blob: ...
    @overload
    def op(self, type: str, inputs: Names, outputs: Iterable[str] | int, **options: Any) -> tuple[Blob, ...]: ...
    def op(
        self,
        type: str,  # noqa: A002 - Caffe2's word
        inputs: Names = (),
        outputs: str | Iterable[str] | int | None = None,
        *,
        engine: str = "",
        op_name: str = "",
        device_option: DeviceOption | None = None,
        **args: Any,
    ) -> Blob | tuple[Blob, ...]:
        """Add an operator.

        Args:
            type: the operator type, such as ``FC``.
            inputs: one blob or several.
            outputs: one blob, several, how many to name here, or None: one, named here.
            engine: the implementation asked for.
            op_name: the operator's own name.
            device_option: its device; that of the device scope where it is None.
            args: its arguments; those that are None are left out.

        Returns:
            The output where ``outputs`` is one name or None; a tuple of them otherwise.

        Raises:
            BuildError: an argument's value is of no kind that an argument can hold.
        """
        read = (inputs,) if isinstance(inputs, str) else tuple(inputs)
        written = self._outputs(type, outputs)
        operator = make_operator(
            type,
            tuple(map(self.blob, read)),
            written,
            args,
            engine=engine,
            op_name=op_name,
            device_option=self.device if device_option is None else device_option,
        )
        self._append(operator)
        return written[0] if outputs is None or isinstance(outputs, str) else written

    def extend(self, operators: Iterable[OperatorDef]) -> None:
        """Add copies of whole operators, such as those of another net: their names are whole names."""
        for operator in operators:
            copy = OperatorDef()
            copy.CopyFrom(operator)
            self._append(copy)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """``net.FC(...)`` is ``net.op("FC", ...)``: every name in upper case first is an operator type."""
        if not name[:1].isupper():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def add(inputs: Names = (), outputs: Any = None, **options: Any) -> Any:
            return self.op(name, inputs, outputs, **options)

        return add

    def _outputs(self, kind: str, outputs: str | Iterable[str] | int | None) -> tuple[Blob, ...]:
        if outputs is None:
            return (self.next_name(kind),)
        if isinstance(outputs, int):
            return tuple(self.next_name(kind, f":{index}") for index in range(outputs))
        return tuple(map(self.blob, (outputs,) if isinstance(outputs, str) else outputs))

    def _append(self, operator: OperatorDef) -> None:
        self.add_external_input(*(Blob(name) for name in operator.input if name not in self._defined))
        self._defined.update(dict.fromkeys(operator.output))
        self._proto.op.append(operator)


def copy_net(net: Net | Message | bytes, what: str) -> NetDef:
    """A copy of a net, which an argument or a model may hold. Raises NetFormatError."""
    copy = NetDef()
    copy.CopyFrom(net.proto if isinstance(net, Net) else as_net_def(net, what))
    return copy
