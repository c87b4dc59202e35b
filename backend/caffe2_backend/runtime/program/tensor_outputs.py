"""Which outputs of a net are tensors, as its conversion shows, which refuses the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from caffe2_backend.runtime.program.conversion import Lowered
from caffe2_bridge.diagnostics import ConversionError, Diagnostic

# Codes of errors that outputs cause which are not tensors.
_NOT_TENSORS: Final = frozenset({"no-tensor", "object-output"})


class TensorOutputs:
    """The outputs of a net that a run can return.

    Attributes:
        refused: outputs that are known not to be tensors.
    """

    def __init__(self) -> None:
        self.refused: set[str] = set()

    def convert(
        self, convert: Callable[[list[str]], Lowered], required: Sequence[str], optional: Sequence[str]
    ) -> tuple[Lowered, list[str]]:
        """Convert with those of the optional outputs that are tensors; the others are not tried again.

        Args:
            convert: converts the net to one that returns the outputs.
            required: outputs that the net must return.
            optional: outputs that it returns if they are tensors.

        Returns:
            The converted net, and which of the optional outputs it returns.

        Raises:
            ConversionError: the net cannot be converted, or a required output is not a tensor.
        """
        available = list(optional)
        while True:
            try:
                return convert([*required, *available]), available
            except ConversionError as error:
                if not available or not all(map(_is_of_output, error.errors)):
                    raise  # an operator is refused
                named = {name for name in available if any(repr(name) in item.reason for item in error.errors)}
                refused = named or set(_refused(convert, required, available))
                if not refused:
                    raise
            self.refused.update(refused)
            available = [name for name in available if name not in refused]


def _refused(
    convert: Callable[[list[str]], Lowered], required: Sequence[str], optional: Sequence[str]
) -> Iterator[str]:
    """Yield the optional outputs that are not tensors, each tried on its own."""
    for name in optional:
        try:
            convert([*required, name])
        except ConversionError as error:
            if not all(map(_is_of_output, error.errors)):
                raise
            yield name


def _is_of_output(error: Diagnostic) -> bool:
    """Whether an output causes an error because it is not a tensor; else an operator does."""
    return error.code in _NOT_TENSORS or (error.code == "undefined-output" and error.location.index is None)
