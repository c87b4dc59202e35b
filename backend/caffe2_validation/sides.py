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
_ALONE: Final = "there is nothing to compare it with: name a second runtime (--against), or a second model (--other)"
# Runtimes of nets that share no converter with the export, and so test it.
_EVALUATORS: Final = frozenset(["pytorch"])


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a comparison.

    Attributes:
        label: unique in a comparison.
        runtime: the runtime.
        model: in the form that the runtime takes.
        subject: what it runs, in words: the model itself, or a conversion of it.
        is_optional: whether it is left out with a note where it cannot run: an evaluator that nobody asked for.
    """

    label: str
    runtime: Runtime
    model: AnyModel = field(repr=False)
    subject: str = ""
    is_optional: bool = False

    @property
    def is_caffe2(self) -> bool:
        """Whether it runs in real Caffe2."""
        return self.runtime.name == "caffe2"

    @property
    def is_evaluator(self) -> bool:
        """Whether it evaluates the net itself, neither in real Caffe2 nor by the export."""
        return self.runtime.name in _EVALUATORS


def make_sides(
    first: Forms, second: Forms | None, runtimes: Sequence[Runtime], *, defaults: bool = False
) -> tuple[list[Side], list[Failure], dict[str, str]]:
    """Return the sides, the reference first; those whose conversion failed or that are alone, and optional ones.

    Without a second model, the first one runs in every runtime; with one, each model in one runtime of its own form.

    Args:
        first: the model.
        second: another one to compare it with.
        runtimes: the runtimes.
        defaults: whether nobody named them: an evaluator is optional then, and runs no second model.

    Raises:
        RunError: there are no runtimes.
        ConversionError: the reference needs a conversion that fails.
    """
    if not runtimes:
        raise RunError(f"no runtime to compare: choose from {', '.join(RUNTIMES)}")
    if second is not None:
        runtimes = [runtime for runtime in runtimes if not (defaults and runtime.name in _EVALUATORS)]
        pairs = [("model", "the model", first), ("other", "the other model", second)]
        chosen = [(label, name, forms, _runtime_of(forms, runtimes)) for label, name, forms in pairs]
        return (
            [
                Side(f"{label} in {own.name}", own, forms.take(own), _subject(forms, own, name))
                for label, name, forms, own in chosen
            ],
            [],
            {},
        )
    sides: list[Side] = []
    failures: list[Failure] = []
    absent: dict[str, str] = {}
    for index, runtime in enumerate(runtimes):
        same = sum(side.runtime.name == runtime.name for side in sides)
        is_optional = defaults and runtime.name in _EVALUATORS
        label = f"{runtime.name} {same + 1}" if same else runtime.name
        try:
            sides.append(Side(label, runtime, first.take(runtime), _subject(first, runtime), is_optional))
        except BridgeError as error:
            if index == 0:
                raise
            if is_optional:
                absent[label] = str(error).partition("\n")[0]
            else:
                failures.append(Failure("*", runtime.name, str(error)))
    if len(sides) == 1 and not failures:
        failures.append(Failure("*", sides[0].label, _ALONE))
    return sides, failures, absent


def _subject(forms: Forms, runtime: Runtime, name: str = "") -> str:
    """Return what a runtime runs: the model of that name (one without a name by its form), its export or its import."""
    of = f" of {name}" if name else ""
    if runtime.name in _EVALUATORS:
        net = name or "the net" if isinstance(forms.model, Model) else f"the import{of}"
        return f"an independent evaluator of {net}"
    if isinstance(forms.model, Model):
        exports = runtime.form == "onnx" or runtime.name in _BY_EXPORT
        return f"the export{of}" if exports else name or "the net"
    return name or "the ONNX model" if runtime.form == "onnx" else f"the import{of}"


def _runtime_of(forms: Forms, runtimes: Sequence[Runtime]) -> Runtime:
    form = "caffe2" if isinstance(forms.model, Model) else "onnx"
    return next((runtime for runtime in runtimes if runtime.form == form), runtimes[0])


def versions_of(sides: Sequence[Side]) -> dict[str, str]:
    """Return the versions of the runtimes' parts by name; for a runtime that cannot be asked, why."""
    found: dict[str, str] = {}
    for side in sides:
        try:
            found.update(side.runtime.versions())
        except RunError as error:
            found[side.runtime.name] = str(error)
    return found
