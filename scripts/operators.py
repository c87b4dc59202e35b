"""Write the index of the frontend's converters from their families; with ``--check``, compare it instead."""

from __future__ import annotations

import sys

from caffe2_frontend.ops.families import index_text
from caffe2_frontend.ops.index import FILE


def main() -> int:
    """Write or check the index."""
    text = index_text()
    if "--check" in sys.argv[1:]:
        if FILE.read_text(encoding="ascii") == text:
            return 0
        print(f"{FILE} is out of date: run scripts/operators", file=sys.stderr)
        return 1
    FILE.write_text(text, encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
