"""Make the README's links absolute for a package index, which shows it without the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK: Final = re.compile(r"(!?)(\[[^\]]*\])\((?![a-z]+:|#)([^)]+)\)")


def with_absolute_links(text: str, repository: str) -> str:
    """Return Markdown whose relative links lead to files of a repository: pages as pages, pictures as they are."""
    return _LINK.sub(lambda m: f"{m[1]}{m[2]}({repository}/{'raw' if m[1] else 'blob'}/HEAD/{m[3]})", text)


class ReadmeHook(MetadataHookInterface):
    """The readme of the metadata, with links below the project's repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = with_absolute_links(text, metadata["urls"]["Repository"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
