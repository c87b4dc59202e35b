"""Golden models on the GPU: every output against what real Caffe2 recorded."""

from __future__ import annotations

import sys
import time

from conformance.compare import mismatches
from conformance.corpus import CaseRef, find_cases, read_case
from support.paths import MODELS

from caffe2_backend import Predictor
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.model import Model
from gpu_suite.results import record


def main() -> int:
    """Run each case; 1 if one differs."""
    failed = 0
    for folder in sorted(path.parent for path in MODELS.glob("*/model.json")):
        for ref in find_cases(folder):
            failed += not _run(folder.name, ref)
    return 1 if failed else 0


def _run(model: str, ref: CaseRef) -> bool:
    case = read_case(ref)
    start = time.perf_counter()
    try:
        found = Predictor(Model.of(case.net, case.init_net), "cuda:0").run(case.inputs)
    except BridgeError as error:
        return record(f"{model} {ref.index}", "failed", reason=str(error))
    shared = {name: value for name, value in case.outputs.items() if name in found}
    texts = mismatches(shared, {name: found[name] for name in shared})
    if not shared:
        texts = ["no recorded output was computed"]
    seconds = round(time.perf_counter() - start, 2)
    return record(f"{model} {ref.index}", "failed" if texts else "passed", seconds=seconds, reason="; ".join(texts))


if __name__ == "__main__":
    sys.exit(main())
