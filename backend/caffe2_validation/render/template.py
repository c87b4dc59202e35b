"""Templates of pages, with the head, the style and the script that pages share."""

from __future__ import annotations

import html
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from string import Template
from typing import Final

from caffe2_backend.picture.page import viewer_hash
from caffe2_bridge.diagnostics.printable import printable

_FOLDER: Final = Path(__file__).parent


def fill(template: Path, *, scripts: Sequence[Path] = (), **parts: str) -> str:
    """Fill a template; ``head`` (up to the title), ``style`` and ``script`` are the shared ones, ``scripts`` follow.

    The parts are HTML. Characters in them that are not printable, such as those that turn text around, are escaped. The
    page's policy allows the scripts of the template and the viewer of pictures, and no others.
    """
    script = "\n".join(map(_text, (_FOLDER / "tables.js", *scripts)))
    own = re.findall(r"<script>(.*?)</script>", _text(template).replace("$script", script), re.DOTALL)
    hashes = [f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}" for text in own]
    allowed = " ".join(f"'{each}'" for each in (*hashes, viewer_hash()))
    head = _text(_FOLDER / "head.html").rstrip("\n").replace("$scripts", allowed)
    shared = {"head": head, "style": _text(_FOLDER / "style.css"), "script": script}
    return Template(_text(template)).substitute(
        shared, **{name: printable(part, keep="\n\t") for name, part in parts.items()}
    )


def escape(text: str) -> str:
    """Return a text, which may hold names from models, as HTML; characters that are not printable are escaped."""
    return html.escape(printable(text, keep="\n\t"))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
