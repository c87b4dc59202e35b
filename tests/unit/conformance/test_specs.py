"""Whether the recorded cases are those that the specs list, in their order: a spec is edited together with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from conformance.corpus import Array
from conformance.recording import Recorded, Spec, read_recorded, read_spec, spec_name
from support.paths import GOLDEN

SPECS = sorted((GOLDEN / "specs").rglob("*.py"))


@pytest.fixture(scope="module")
def recorded() -> Mapping[str, Mapping[int, Recorded]]:
    """Return the recorded cases by their specs and numbers. No two have the same."""
    found: defaultdict[str, dict[int, Recorded]] = defaultdict(dict)
    for path in (GOLDEN / "recorded").rglob("*.npz"):
        for item in [] if "models" in path.parts else read_recorded(path):
            spec, _, number = item.meta["test"].partition("::")
            assert int(number) not in found[spec], item.meta["test"]
            found[spec][int(number)] = item
    return found


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.relative_to(GOLDEN / "specs").as_posix())
def test_cases_are_recorded(path: Path, recorded: Mapping[str, Mapping[int, Recorded]]) -> None:
    specs, items = read_spec(path), recorded[spec_name(path)]
    assert sorted(items) == list(range(len(specs)))
    assert [number for number, spec in enumerate(specs) if not _is_of(items[number], spec)] == []


def test_recorded_cases_are_of_specs(recorded: Mapping[str, Mapping[int, Recorded]]) -> None:
    assert set(recorded) == {spec_name(path) for path in SPECS}


def _is_of(item: Recorded, spec: Spec) -> bool:
    """Whether a recording has the net of a case, and was fed its inputs; of strings, the names are compared alone."""
    proto = spec.net.op[0] if spec.kind == "op" else spec.net
    if proto.SerializeToString(deterministic=True) != item.proto or item.meta["inputs"] != list(spec.inputs):
        return False
    return all(_same(item.arrays[f"in/{name}"], x) for name, x in spec.inputs.items() if x.dtype != object)


def _same(one: Array, other: Array) -> bool:
    """Whether arrays are equal; the last bits of products that a spec computes depend on the processor's kernels."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    return one.tobytes() == other.tobytes() or (
        one.dtype.kind == "f" and np.allclose(one, other, rtol=1e-6, atol=0, equal_nan=True)
    )
