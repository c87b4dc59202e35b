"""Programs: the operators of a net as functions, in order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import dataclass, field

from caffe2_bridge.control import ControlOperator
from caffe2_bridge.diagnostics import BridgeError, Location, RunError
from caffe2_bridge.netdef.unread_arguments import unread_arguments
from caffe2_bridge.netdef.views import OpView
from caffe2_torch.evaluation.context import Context
from caffe2_torch.evaluation.family import Evaluate
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

Blobs = MutableMapping[str, Value]


@dataclass
class ProgramStep:
    """An operator with its function.

    Attributes:
        view: the operator.
        function: what computes it.
        location: where it is, for messages.
        control: the view of an operator with bodies.
        bodies: the programs of these, by argument.
        last_reads: the blobs that nothing reads after it.
    """

    view: OpView
    function: Evaluate
    location: Location
    control: ControlOperator | None = None
    bodies: Mapping[str, Program] = field(default_factory=dict)
    last_reads: tuple[str, ...] = ()
    _is_checked: bool = False

    def run(self, blobs: Blobs, context: Context) -> None:
        """Compute the outputs. Raises RunError, which names the operator."""
        view = self.view
        try:
            values = tuple(blobs[name] if name else None for name in view.inputs)
            op = Op(view, values, context, blobs, self.bodies, self.control)
            results = self.function(op)
        except KeyError as error:
            raise RunError(f"{self.location}: blob {error} has no value") from error
        except RunError:
            raise
        except (BridgeError, RuntimeError, ValueError, TypeError, IndexError, ArithmeticError) as error:
            raise RunError(f"{self.location}: {error}") from error
        if not self._is_checked:
            self._check_arguments()
        if self.control is None:
            made = results if type(results) is tuple else (results,)
            for name, value in zip(view.outputs, made, strict=False):
                if name:
                    blobs[name] = value

    def _check_arguments(self) -> None:
        """Refuse arguments that Caffe2 reads and the function did not."""
        unread = unread_arguments(self.view).unsupported
        if unread:
            raise RunError(f"{self.location}: the conversion to PyTorch does not support argument {unread[0]!r}")
        self._is_checked = True


@dataclass
class Program:
    """The steps of a net.

    ``found`` are the blobs that they read before they write them, or may keep; ``written`` those that they may write.
    """

    steps: tuple[ProgramStep, ...]
    found: frozenset[str]
    written: frozenset[str] = frozenset()

    def run(self, blobs: Blobs, context: Context, keep: Collection[str] | None = None) -> None:
        """Run all steps in a workspace. Blobs that are not kept are dropped after their last use; None keeps all."""
        for step in self.steps:
            step.run(blobs, context)
            if keep is not None:
                for name in step.last_reads:
                    if name not in keep:
                        blobs.pop(name, None)
