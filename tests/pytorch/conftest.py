from __future__ import annotations

from collections.abc import Iterator

import pytest
from conformance.pool import Pool


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    """One worker process: what crashes in it does not end the test run."""
    with Pool(1) as workers:
        yield workers
