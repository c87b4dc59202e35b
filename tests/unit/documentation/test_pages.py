"""The pages of the site, made of those of the repository."""

from __future__ import annotations

from pathlib import Path

import pytest
from documentation.pages import convert, navigation, sources

KNOWN = {"README.md": "index.md", "docs/files.md": "files.md", "CONTRIBUTING.md": "contributing.md"}


@pytest.mark.parametrize(
    ("text", "page", "expected"),
    [
        ("[here](docs/files.md#plans)", "README.md", "[here](files.md#plans)"),
        ("[docs/files.md](docs/files.md)", "README.md", "[Formats of files](files.md)"),
        ("[how](../CONTRIBUTING.md)", "docs/files.md", "[how](contributing.md)"),
        ("[code](bridge/caffe2_bridge/model.py)", "README.md", "code"),
        ("[`a.py`](a.py), [site](https://semver.org)", "README.md", "`a.py`, [site](https://semver.org)"),
        ("[below](#files)", "README.md", "[below](#files)"),
        ("```text\n[a](docs/files.md)\n```", "README.md", "```text\n[a](docs/files.md)\n```"),
        ("<!-- picture: rooms, The rooms -->", "docs/files.md", "![The rooms](drawings/rooms.svg)"),
        (
            "[first](tutorials/1_export_an_lstm.py)",
            "docs/files.md",
            "[first](tutorials/1_export_an_lstm.md)",
        ),
    ],
)
def test_links_lead_to_pages_of_the_site(text: str, page: str, expected: str) -> None:
    assert convert(text, page, KNOWN) == expected


def test_every_page_has_a_name_of_its_own() -> None:
    names = [*sources().values()]
    assert len(names) == len(set(names))
    assert {"index.md", "changelog.md", "benchmarks.md", "coverage.md"} <= set(names)


def test_the_navigation_is_complete(tmp_path: Path) -> None:
    for name in ("index.md", "new.md", "tutorials/b.md", "tutorials/a.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = navigation([{"Start": ["index.md", "tutorials/*"]}], tmp_path)
    assert found == [{"Start": ["index.md", "tutorials/a.md", "tutorials/b.md"]}, {"More": ["new.md"]}]
    with pytest.raises(FileNotFoundError, match=r"names the page old\.md"):
        navigation([{"Start": ["old.md"]}], tmp_path)
