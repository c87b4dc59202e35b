"""Recorded operators on the device webgpu: their values, and which of them its provider leaves to the host.

``--write`` writes the list of those, ``webgpu_on_host.txt``, for another version of the provider.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.__main__ import GOLDEN, select
from conformance.compare import mismatches
from conformance.corpus import CaseRef, find_cases, read_case
from conformance.deviations import DEVIATIONS
from conformance.outside import OUTSIDE
from conformance.pool import WorkerPool

from caffe2_backend import Predictor
from caffe2_backend.runtime.devices.device_names import WEBGPU
from caffe2_bridge.diagnostics import ConversionError, RunError
from caffe2_bridge.model import Model
from gpu_suite.results import record

_SECONDS: Final = 30.0  # a case
# A line for each operator that stays on the host, with the reason.
ON_HOST: Final = Path(__file__).parents[1] / "webgpu_on_host.txt"


@dataclass(frozen=True)
class Found:
    """What a case gave: why it stays on the host, and what of its results is wrong; None if it is not converted."""

    name: str
    on_host: str = ""
    wrong: str | None = ""


class Checker:
    """Runs cases on WebGPU."""

    def check(self, ref: CaseRef) -> Found:
        """Run a case."""
        case, name = read_case(ref), _name(ref)
        try:
            predictor = Predictor(Model.of(case.net, case.init_net), WEBGPU, outputs=list(case.outputs))
            results = predictor.run({name: case.inputs[name] for name in case.fed})
        except ConversionError:
            return Found(name, wrong=None)
        except RunError as error:
            return Found(name, wrong=str(error))
        placement = predictor.placement
        reasons = dict.fromkeys(operator.reason for operator in placement.on_host) if placement else ()
        return Found(name, "; ".join(reasons), "; ".join(mismatches(case.outputs, results)))


def _name(ref: CaseRef) -> str:
    """Return the name of an operator's case, without its number: one is run."""
    return ref.id.rpartition("/")[0]


def _lost(ref: CaseRef, reason: str) -> Found:
    return Found(_name(ref), wrong=reason)


def main() -> int:
    """Run a case of each operator; 1 if one is wrong, or another one than listed stays on the host."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the list of operators that stay on the host")
    refs: dict[str, CaseRef] = {}
    for ref in select(find_cases(GOLDEN), [], gradients=False, sample=1):
        if ref.kind == "op" and not {ref.id} & {*OUTSIDE, *DEVIATIONS}:
            refs.setdefault(_name(ref), ref)
    chosen = [ref for ref in refs.values() if not read_case(ref).quantized]
    if parser.parse_args().write:
        found = sorted(_run(chosen), key=lambda each: each.name)
        ON_HOST.write_text("".join(f"{each.name}: {each.on_host}\n" for each in found if each.on_host), "ascii")
        return 0
    listed = dict(line.split(": ", 1) for line in ON_HOST.read_text("ascii").splitlines())
    good = [_record(each, listed) for each in _run(chosen)]
    return 0 if all(good) else 1


def _run(refs: Iterable[CaseRef]) -> Iterator[Found]:
    with WorkerPool(1, Checker, _lost, lambda ref: ref.path, _SECONDS) as pool:
        yield from pool.run(refs)


def _record(found: Found, listed: Mapping[str, str]) -> bool:
    if found.wrong is None:
        return record(found.name, "skipped", reason="it is not converted")
    good = record(found.name, "failed" if found.wrong else "passed", reason=found.wrong)
    expected = listed.get(found.name, "")
    if found.on_host != expected:
        reason = f"on the host: {found.on_host or 'no'}; listed: {expected or 'no'}"
        return record(f"{found.name} is placed", "failed", reason=reason)
    return good


if __name__ == "__main__":
    sys.exit(main())
