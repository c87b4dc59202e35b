"""What is installed: required and optional packages, onnxruntime and its GPUs, and real Caffe2."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any, Final

from packaging.requirements import Requirement

from caffe2_backend.runtime.devices.cuda_driver import device_properties
from caffe2_backend.runtime.sessions.onnxruntime_library import cuda_devices, missing_cuda, onnxruntime
from caffe2_bridge.diagnostics import RunError
from caffe2_validation.runtimes.real_caffe2 import Caffe2, find_python

DISTRIBUTION: Final = "caffe2-bridge"
_EXTRA: Final = re.compile(r"extra == ['\"]([\w.-]+)['\"]")
# The extras with onnxruntime: one of them is required, and two overwrite each other's files.
_RUNTIMES: Final = ("cpu", "gpu")
# Programs that are optional: what they are for, and where they come from.
_PROGRAMS: Final = {
    "dot": ("show --svg", "apt install graphviz, brew install graphviz, or graphviz.org"),
    "node": ("validate --against onnxruntime-node, onnxruntime-web", "nodejs.org, then npm install -g that package"),
}


@dataclass(frozen=True)
class Package:
    """A package that this project asks for.

    Attributes:
        name: of the distribution.
        extra: the extra that asks for it; empty for a required package.
        wanted: the versions that are supported, such as ``>=2.0``.
        version: the installed one; empty if it is not installed.
        state: ``ok``, ``missing``, or ``unsupported`` for an installed version that is not supported.
        command: what installs a supported version.
    """

    name: str
    extra: str
    wanted: str
    version: str
    state: str
    command: str


@dataclass(frozen=True)
class Program:
    """A program that is optional.

    Attributes:
        name: what is searched on the path.
        purpose: the commands that start it.
        path: where it is; empty if it is missing.
        source: where it comes from.
    """

    name: str
    purpose: str
    path: str
    source: str


@dataclass(frozen=True)
class Problem:
    """Something that keeps this project from working, and its cure."""

    reason: str
    cure: str


@dataclass(frozen=True)
class Installation:
    """What is installed.

    Attributes:
        version: of this project.
        python: the version of Python.
        platform: the operating system and the processor.
        packages: the required ones, then those of the extras.
        programs: the optional ones.
        providers: the execution providers of onnxruntime; none if it cannot be imported.
        gpus: name, memory in bytes and compute capability of each GPU that onnxruntime can use.
        no_gpu: why onnxruntime can use no GPU; empty if it can.
        caffe2: the Python of real Caffe2, and the versions there; empty if it is not installed.
        no_caffe2: why real Caffe2 cannot be asked; empty if it can.
        problems: what keeps this project from working.
    """

    version: str
    python: str
    platform: str
    packages: tuple[Package, ...]
    programs: tuple[Program, ...]
    providers: tuple[str, ...]
    gpus: tuple[Mapping[str, Any], ...]
    no_gpu: str
    caffe2: Mapping[str, str]
    no_caffe2: str
    problems: tuple[Problem, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return asdict(self)


def inspect_installation() -> Installation:
    """Inspect the installation of this project in this Python. Starts real Caffe2 where it is installed."""
    packages = tuple(find_packages(requires(DISTRIBUTION) or []))
    problems = [_problem(package) for package in packages if not package.extra and package.state != "ok"]
    providers, no_gpu = _find_providers()
    runtimes = [package for package in packages if package.extra in _RUNTIMES and package.version]
    problems += _runtime_problems(runtimes, no_gpu if not providers else "")
    caffe2, no_caffe2 = _find_caffe2()
    return Installation(
        version(DISTRIBUTION),
        platform.python_version(),
        platform.platform(),
        packages,
        tuple(Program(name, use, shutil.which(name) or "", source) for name, (use, source) in _PROGRAMS.items()),
        providers,
        tuple(map(device_properties, range(cuda_devices()))) if providers else (),
        no_gpu,
        caffe2,
        no_caffe2,
        tuple(problems),
    )


def find_packages(requirements: list[str]) -> Iterator[Package]:
    """Look up requirements, as the metadata of a distribution lists them: those without an extra first.

    Requirements whose markers exclude this Python are left out.
    """
    named = []
    for text in requirements:
        requirement = Requirement(text)
        extra = _EXTRA.search(str(requirement.marker))
        named.append((extra[1] if extra else "", requirement))
    for extra_name, requirement in sorted(named, key=lambda pair: (pair[0], pair[1].name)):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra_name}):
            continue
        found = _installed(requirement.name)
        fits = requirement.specifier.contains(found, prereleases=True) if found else False
        state = "ok" if fits else "unsupported" if found else "missing"
        wanted = str(requirement.specifier)
        command = _command(f"{DISTRIBUTION}[{extra_name}]" if extra_name else f"{requirement.name}{wanted}", extra_name)
        yield Package(requirement.name, extra_name, wanted, found, state, command)


def _command(requirement: str, extra: str) -> str:
    """Return the command that installs a requirement, instead of the other onnxruntime where that is installed."""
    other = {"cpu": "onnxruntime-gpu", "gpu": "onnxruntime"}.get(extra, "")
    first = f"pip uninstall {other}; " if other and _installed(other) else ""
    return f"{first}pip install '{requirement}'"


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _problem(package: Package) -> Problem:
    if package.state == "missing":
        return Problem(f"{package.name} is not installed", package.command)
    return Problem(f"{package.name} {package.version} is not supported, {package.wanted} is", package.command)


def _runtime_problems(runtimes: list[Package], damage: str) -> list[Problem]:
    """Whether exactly one onnxruntime is installed, of a supported version, and can be imported."""
    if not runtimes:
        return [Problem("onnxruntime is not installed", f"pip install '{DISTRIBUTION}[cpu]', or [gpu] for CUDA")]
    if len(runtimes) > 1:
        names = " ".join(package.name for package in runtimes)
        cure = f"pip uninstall {names}; pip install '{DISTRIBUTION}[cpu]', or [gpu] for CUDA"
        return [Problem(f"{' and '.join(names.split())} overwrite each other's files: keep one", cure)]
    problems = [_problem(package) for package in runtimes if package.state != "ok"]
    if damage and not problems:
        cure = f"pip install --force-reinstall {runtimes[0].name}"
        problems.append(Problem(damage, cure))
    return problems


def _find_providers() -> tuple[tuple[str, ...], str]:
    """Return the execution providers of onnxruntime, and why it can use no GPU."""
    try:
        return tuple(onnxruntime().get_available_providers()), missing_cuda()
    except RunError as error:
        return (), str(error)


def _find_caffe2() -> tuple[dict[str, str], str]:
    """Return real Caffe2's Python and versions, and why there are none."""
    runtime = Caffe2()
    reason = runtime.missing()
    if reason:
        return {}, reason
    try:
        return {"executable": str(find_python()), **runtime.versions()}, ""
    except RunError as error:
        return {}, str(error)
    finally:
        runtime.close()
