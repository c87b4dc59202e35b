"""The stages, the most important first, each with the seconds that it may take."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpu_suite.stand_ins.renamed import OWN_NAME
from gpu_suite.wheels import ROOT

_MARK: Final = "pytest.mark.gpu"


@dataclass(frozen=True)
class Stage:
    """A command in a process of its own.

    Attributes:
        name: for the report and ``--stages``.
        title: what it shows.
        limit: seconds after which it is stopped; what it had recorded until then counts.
        words: the arguments of Python.
        vital: whether the others make no sense if it fails.
        variables: of its environment.
    """

    name: str
    title: str
    limit: float
    words: tuple[str, ...]
    vital: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)

    def command(self) -> list[str]:
        """Return the command."""
        return [sys.executable, *self.words]


def _bench(name: str, *options: str) -> tuple[str, ...]:
    return (str(ROOT / "benchmarks" / f"{name}.py"), "--device", "cuda", *options)


def _module(name: str) -> tuple[str, ...]:
    return ("-m", f"gpu_suite.stages.{name}")


def _tests() -> tuple[str, ...]:
    """Return the files with tests marked gpu: collecting all tests would take longer than running these."""
    files = sorted(path for path in (ROOT / "tests").glob("*/**/test_*.py") if _MARK in path.read_text("utf-8"))
    # Warnings of other versions of libraries than this project is developed with are no failures there.
    options = (
        "-q",
        "-m",
        "gpu",
        "-o",
        "filterwarnings=default",
        "-p",
        "gpu_suite.pytest_results",
        "-p",
        "no:cacheprovider",
    )
    return ("-m", "pytest", *options, *(str(path.relative_to(ROOT)) for path in files))


STAGES: Final = (
    Stage("machine", "The machine, its libraries, a first run on the GPU", 40, _module("machine"), vital=True),
    Stage("models", "Golden models on the GPU against the recorded values", 90, _module("models")),
    Stage("copies", "Copies between host and GPU inside nets", 50, _module("copies")),
    Stage("tests", "Tests marked gpu", 90, _tests()),
    Stage("training", "Recorded training programs on the GPU", 60, _module("training")),
    Stage("rnn", "Recurrent nets beside PyTorch's cuDNN", 80, _bench("rnn", "--cells", "LSTM", "--cuda-sizes")),
    Stage("resnet", "ResNet-50 beside PyTorch", 45, _bench("resnet")),
    Stage("runtime", "Calls of a tiny net", 35, _bench("runtime")),
    Stage("train", "Training steps beside PyTorch", 40, _bench("train")),
)  # fmt: skip
_BY_NAME: Final = {stage.name: stage for stage in STAGES}
# What each stand-in for a GPU can show.
STAND_IN_STAGES: Final = {
    "emulated-cuda": (
        _BY_NAME["machine"],
        Stage("placement", "Predicted placement against the CUDA provider's", 150, _module("placement")),
        _BY_NAME["copies"],
        Stage("graphs", "Recurrent models that are recorded as CUDA graphs", 40, _module("graphs")),
        _BY_NAME["tests"],
    ),
    "webgpu": (
        *(_BY_NAME[name] for name in ("machine", "models", "training", "tests")),
        Stage(
            "operators", "Recorded operators on the device webgpu", 150, _module("operators"), variables={OWN_NAME: "1"}
        ),
    ),
}  # fmt: skip
