"""The sides of a comparison: a runtime each, with a model in the form that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from caffe2_bridge.diagnostics import BridgeError, RunError
from caffe2_bridge.model import Model
from caffe2_validation.forms import Forms
from caffe2_validation.report import Failure
from caffe2_validation.runtimes import RUNTIMES, AnyModel, Runtime

# Runtimes of nets that run them by their export, and so do not test it.
_BY_EXPORT: Final = frozenset(["workspace"])


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a comparison.

    Attributes:
        label: unique in a comparison.
        runtime: the runtime.
        model: in the form that the runtime takes.
        subject: what it runs, in words: the model itself, or a conversion of it.
    """

    label: str
    runtime: Runtime
    model: AnyModel = field(repr=False)
    subject: str = ""

    @property
    def is_caffe2(self) -> bool:
        """Whether it runs in real Caffe2."""
        return self.runtime.name == "caffe2"


def make_sides(first: Forms, second: Forms | None, runtimes: Sequence[Runtime]) -> tuple[list[Side], list[Failure]]:
    """The sides, the reference first, and those that could not be made, as their conversion failed.

    Without a second model, the first one runs in every runtime; with one, each model in one runtime of its own form.

    Raises:
        RunError: there are no runtimes.
        ConversionError: the reference needs a conversion that fails.
    """
    if not runtimes:
        raise RunError(f"no runtime to compare: choose from {', '.join(RUNTIMES)}")
    if second is not None:
        pairs = [("model", "the model", first), ("other", "the other model", second)]
        chosen = [(label, name, forms, _runtime_of(forms, runtimes)) for label, name, forms in pairs]
        return [
            Side(f"{label} in {own.name}", own, forms.take(own), _subject(forms, own, name))
            for label, name, forms, own in chosen
        ], []
    sides: list[Side] = []
    failures: list[Failure] = []
    for index, runtime in enumerate(runtimes):
        same = sum(side.runtime.name == runtime.name for side in sides)
        try:
            label = f"{runtime.name} {same + 1}" if same else runtime.name
            sides.append(Side(label, runtime, first.take(runtime), _subject(first, runtime)))
        except BridgeError as error:
            if index == 0:
                raise
            failures.append(Failure("*", runtime.name, str(error)))
    return sides, failures


def _subject(forms: Forms, runtime: Runtime, name: str = "") -> str:
    """What a runtime runs: the model of that name (one without a name by its form), its export or its import."""
    of = f" of {name}" if name else ""
    if isinstance(forms.model, Model):
        exports = runtime.form == "onnx" or runtime.name in _BY_EXPORT
        return f"the export{of}" if exports else name or "the net"
    return name or "the ONNX model" if runtime.form == "onnx" else f"the import{of}"


def _runtime_of(forms: Forms, runtimes: Sequence[Runtime]) -> Runtime:
    form = "caffe2" if isinstance(forms.model, Model) else "onnx"
    return next((runtime for runtime in runtimes if runtime.form == form), runtimes[0])


def versions_of(sides: Sequence[Side]) -> dict[str, str]:
    """Versions of the runtimes' parts by name; for a runtime that cannot be asked, why."""
    found: dict[str, str] = {}
    for side in sides:
        try:
            found.update(side.runtime.versions())
        except RunError as error:
            found[side.runtime.name] = str(error)
    return found
