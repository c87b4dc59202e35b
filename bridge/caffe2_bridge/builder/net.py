"""Build nets operator by operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, overload

from google.protobuf.message import Message

from caffe2_bridge.builder.initializers import XAVIER, Initializer
from caffe2_bridge.builder.operator_names import nearby_operator_types, operator_types
from caffe2_bridge.builder.scope import Blob, OperatorScope
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
    """The state that a net shares with its children: the current scope, and the parameters."""

    seed: int
    scope: OperatorScope = field(default_factory=OperatorScope)
    init: NetDef = field(default_factory=NetDef)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)


class Net:
    """A net to which operators are appended, and the parameters that it reads.

    Operators are added by a method named like their type, ``net.FC([x, w, b], "y", axis=2)``, or by
    ``net.op("FC", ...)``. A str names a blob relative to the current name scope; a ``Blob``, which every method
    returns, is a full name. A blob that is read before it is written becomes an external input.

    Args:
        name: the net's name.
        seed: the seed of random initial values of parameters, combined with their names.
    """

    def __init__(self, name: str = "net", *, seed: int = 0) -> None:
        self._proto = NetDef(name=name)
        self._family = _Family(seed, init=NetDef(name=f"{name}_init"))
        self._parent: Net | None = None
        self._defined: dict[str, None] = {}
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}  # the next suffix to try for each name

    @property
    def name(self) -> str:
        """The net's name."""
        return self._proto.name

    @property
    def proto(self) -> NetDef:
        """The net under construction. Change it only through this object."""
        return self._proto

    @property
    def init_net(self) -> NetDef:
        """The net that fills the parameters of the net and its children: a fill operator with a seed for each."""
        return self._family.init

    def model(self) -> Model:
        """Return the net with its parameters; random ones are drawn here, so that every runtime has the same values."""
        init = read_init_net(self._family.init)
        rest = (op.proto for op in init.rest)
        return Model.of(
            copy_net(self, "net"), b"".join(fill_net(init.parameters.values(), rest, self._family.init.name))
        )

    def child(self, name: str) -> Net:
        """Make an empty net for a body or step of this net, with the same scopes and parameters."""
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
        """Prefix the names of blobs of this net, its parents and its children with ``name/``; scopes nest.

        With ``shares_parameters``, parameters do not get the prefix. An empty name has no effect.
        """
        before = self._family.scope
        self._family.scope = before.enter(name, shares_parameters=shares_parameters)
        try:
            yield
        finally:
            self._family.scope = before

    @contextmanager
    def device_scope(self, device: DeviceOption | None) -> Iterator[None]:
        """Give new operators and fills within the block this device option."""
        before = self._family.scope
        self._family.scope = before.on(device)
        try:
            yield
        finally:
            self._family.scope = before

    def blob(self, name: str) -> Blob:
        """Return the full name of ``name`` in the current scope."""
        return self._family.scope.blob(name)

    def defines(self, name: str) -> bool:
        """Return whether ``name`` (in the current scope) is an external input or written by an operator."""
        return self.blob(name) in self._defined

    @property
    def lexical_scope(self) -> tuple[str, ...]:
        """The blobs that a body of this net can access: those of the net and of its parents."""
        outer = () if self._parent is None else self._parent.lexical_scope
        return tuple(dict.fromkeys((*outer, *self._family.shapes, *self._defined)))

    def unique_name(self, name: str) -> Blob:
        """Return ``name`` in the current scope, with a suffix ``_auto_0``, ``_auto_1``, ... if it is in use."""
        base = self.blob(name)
        return self._first_free(base, 0, lambda number: base + f"_auto_{number}")

    def next_name(self, prefix: str, suffix: str = "") -> Blob:
        """Return ``<net>/<prefix><suffix>`` in the current scope; ``_2``, ``_3``, ... follow a prefix in use."""
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
        """Declare external inputs. Raises BuildError for a blob that an operator of the net has written."""
        blobs = tuple(map(self.blob, names))
        for blob in blobs:
            if blob not in self._defined:
                self._defined[blob] = None
                self._proto.external_input.append(blob)
            elif blob not in self._proto.external_input:
                raise BuildError(
                    f"blob {str(blob)!r} cannot be an external input of net {self.name!r}, which writes it"
                )
        return blobs

    def add_external_output(self, *names: str) -> tuple[Blob, ...]:
        """Declare external outputs; duplicates are ignored."""
        blobs = tuple(map(self.blob, names))
        known = set(self._proto.external_output)
        self._proto.external_output.extend(blob for blob in dict.fromkeys(blobs) if blob not in known)
        return blobs

    def param(self, name: str, shape: Sequence[int], initializer: Initializer = XAVIER) -> Blob:
        """Return a parameter; the first call for a name adds its fill to the init net, later calls share it.

        Raises BuildError if it exists with another shape.
        """
        blob = self._family.scope.parameter(name)
        sizes = tuple(int(size) for size in shape)
        known = self._family.shapes.get(blob)
        if known is None:
            self._family.init.op.extend(initializer.operators(blob, sizes, self._family.seed, self.device))
            self._family.init.external_output.append(blob)
            self._family.shapes[blob] = sizes
        elif known != sizes:
            raise BuildError(f"parameter {str(blob)!r} exists with shape {list(known)}, not {list(sizes)}")
        return blob

    @overload
    def op(self, type: str, inputs: Names = ..., outputs: str | None = ..., **options: Any) -> Blob: ...
    @overload
    def op(self, type: str, inputs: Names, outputs: Iterable[str] | int, **options: Any) -> Any: ...
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
    ) -> Blob | tuple[Blob, ...] | None:
        """Add an operator.

        Args:
            type: the operator type, such as ``FC``.
            inputs: one blob or several.
            outputs: one blob, several, or how many to create under generated names; None for one such.
            engine: the requested engine.
            op_name: the name of the operator.
            device_option: its device; by default that of the device scope.
            args: its arguments; those that are None are omitted.

        Returns:
            The output; None or a tuple if the operator has none or several.

        Raises:
            BuildError: the value of an argument has a type that arguments cannot hold.
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
        if not written:
            return None
        return written[0] if len(written) == 1 else written

    def extend(self, operators: Iterable[OperatorDef]) -> None:
        """Append copies of operators, such as those of another net; their blobs have full names."""
        for operator in operators:
            copy = OperatorDef()
            copy.CopyFrom(operator)
            self._append(copy)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a function that adds an operator: ``net.FC(...)`` is ``net.op("FC", ...)``.

        Raises AttributeError for a type that Caffe2 does not have, with the types whose names are close;
        :meth:`op` adds operators of any type.
        """
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name not in operator_types() and name.partition("_ENGINE_")[0] not in operator_types():
            nearby = ",".join(nearby_operator_types(name))
            raise AttributeError(
                f"Method {name} is not a registered operator. Did you mean: [{nearby}]? "
                f"net.op({name!r}, ...) adds an operator of any type"
            )

        def add(inputs: Names = (), outputs: Any = None, **options: Any) -> Any:
            return self.op(name, inputs, outputs, **options)

        return add

    # Caffe2's names

    def Proto(self) -> NetDef:  # noqa: N802 - Caffe2's name
        """Return the net under construction, :attr:`proto`."""
        return self._proto

    def Name(self) -> str:  # noqa: N802 - Caffe2's name
        """Return the net's name."""
        return self.name

    def AddExternalInput(self, *names: str) -> Any:  # noqa: N802 - Caffe2's name
        """Declare external inputs; return the blob, or a list of several."""
        blobs = list(self.add_external_input(*names))
        return blobs[0] if len(blobs) == 1 else blobs

    def AddExternalOutput(self, *names: str) -> None:  # noqa: N802 - Caffe2's name
        """Declare external outputs."""
        self.add_external_output(*names)

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
    """Copy a net, so that the builder's net can grow further. Raises NetFormatError if it is not a NetDef."""
    copy = NetDef()
    copy.CopyFrom(net.proto if isinstance(net, Net) else as_net_def(net, what))
    return copy
