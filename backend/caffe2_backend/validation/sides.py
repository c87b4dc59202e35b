"""The sides of a comparison: a runtime each, with a model in the form that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from caffe2_backend.validation.forms import Forms
from caffe2_backend.validation.report import Failure
from caffe2_backend.validation.runtimes import RUNTIMES, AnyModel, Runtime
from caffe2_bridge.diagnostics import BridgeError, RunError
from caffe2_bridge.model import Model


@dataclass(frozen=True, eq=False)
class Side:
    """One side: a runtime, and the model in the form that it takes. ``label`` is unique in a comparison."""

    label: str
    runtime: Runtime
    model: AnyModel = field(repr=False)


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
        pairs = [("model", first), ("other", second)]
        chosen = [(name, forms, _runtime_of(forms, runtimes)) for name, forms in pairs]
        return [Side(f"{name} in {own.name}", own, forms.take(own)) for name, forms, own in chosen], []
    sides: list[Side] = []
    failures: list[Failure] = []
    for index, runtime in enumerate(runtimes):
        same = sum(side.runtime.name == runtime.name for side in sides)
        try:
            sides.append(Side(f"{runtime.name} {same + 1}" if same else runtime.name, runtime, first.take(runtime)))
        except BridgeError as error:
            if index == 0:
                raise
            failures.append(Failure("*", runtime.name, str(error)))
    return sides, failures


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
