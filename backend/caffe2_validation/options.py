"""Options of a validation, checked once, where a validation starts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeAlias

from caffe2_backend.runtime.devices.device_names import device_name
from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.diagnostics.check_options import check_options
from caffe2_bridge.storage import AnyPath
from caffe2_frontend import ExportOptions, Recurrent
from caffe2_validation.runtimes import Runtime
from caffe2_validation.sizes import SIZES, Size
from caffe2_validation.values import TOLERANCES, Tolerance, with_tolerance

# Inputs by name, as caffe2_frontend.to_onnx takes them: (dtype, shape).
Described: TypeAlias = Mapping[str, tuple[Any, ...]]
# The options that a fleet passes to the process of a model.
_PLAIN: Final = (
    "runtimes", "every_blob", "matrix", "lockstep", "random_weights", "seed", "recurrent", "target", "rtol", "atol",
    "device", "steps", "caffe2_python",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ValidationOptions:
    """Options of a validation.

    Attributes:
        runtimes: names in ``RUNTIMES``, or objects of that interface; the first is the reference. None takes those of
            ``DEFAULT_RUNTIMES`` that are installed, the ones of the model's own form first.
        every_runtime: whether every installed runtime runs where ``runtimes`` is None.
        described: what is known of the inputs, as :func:`caffe2_frontend.to_onnx` takes it.
        outputs: the outputs to compare, instead of the model's own.
        every_blob: whether to compare every intermediate blob that both sides have under one name.
        matrix: whether to compare every pair of sides, and not only each with the reference.
        lockstep: whether to find the first operator and step where sides disagree.
        find_nan: whether to find the first value on the reference side that is NaN or infinite.
        repro: folder to write that operator to, ready to run; None for none.
        seed: of generated inputs and weights.
        sizes: of generated inputs.
        tolerances: by dtype; values of any other dtype are compared exactly.
        rtol: relative tolerance of every float dtype, at any depth; None for that of ``tolerances``.
        atol: absolute tolerance of every float dtype, at any depth; None for that of ``tolerances``.
        recurrent: the form of recurrent nets in exports.
        target: the runtime that exports are for, as :func:`caffe2_frontend.to_onnx` takes it.
        random_weights: whether to synthesize the weights that a net lacks.
        steps: how many steps of a training net are compared.
        caffe2_python: the Python that has real Caffe2; None finds it.
        device: where onnxruntime and the workspace run: ``cpu`` or ``cuda:N``; None is the CPU, except for runtimes
            that are named after a GPU.

    Raises OptionError if an option has a value that does not exist.
    """

    runtimes: Sequence[str | Runtime] | None = None
    every_runtime: bool = False
    described: Described = field(default_factory=dict)
    outputs: Sequence[str] | None = None
    every_blob: bool = False
    matrix: bool = False
    lockstep: bool = False
    find_nan: bool = False
    repro: AnyPath | None = None
    seed: int = 2018
    sizes: Sequence[Size] = SIZES
    tolerances: Mapping[str, Tolerance] = field(default_factory=lambda: TOLERANCES)
    rtol: float | None = None
    atol: float | None = None
    recurrent: Recurrent = "auto"
    target: str = "onnxruntime"
    random_weights: bool = False
    steps: int = 3
    caffe2_python: str | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        check_options(self)
        if self.device is not None:
            object.__setattr__(self, "device", device_name(self.device))
        ExportOptions(**self.export)  # which checks them
        if not self.sizes:
            raise OptionError("sizes must not be empty")
        for name, least in (("steps", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise OptionError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for name in ("rtol", "atol"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise OptionError(f"{name} must be a finite number that is not negative, not {value}")
        object.__setattr__(self, "tolerances", with_tolerance(self.tolerances, self.rtol, self.atol))

    @property
    def export(self) -> dict[str, Any]:
        """Options of exports."""
        return {"recurrent": self.recurrent, "target": self.target}

    def to_json(self) -> str:
        """Return the options of a fleet: those that are plain data."""
        return json.dumps({name: getattr(self, name) for name in _PLAIN}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> ValidationOptions:
        """Invert :meth:`to_json`."""
        data = json.loads(text)
        return cls(**{known.name: data[known.name] for known in fields(cls) if known.name in data})


DEFAULTS: Final = ValidationOptions()
