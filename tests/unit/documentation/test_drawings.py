"""Pictures drawn from the code."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from documentation.drawings import PACKAGES, count_imports, draw_pipeline, draw_rooms, find_rooms, table_of_rooms

from caffe2_frontend.pipeline import EXPORT

NAMESPACE = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_room_says_what_it_is(package: str) -> None:
    rooms = find_rooms(package)
    assert rooms
    assert [room.name for room in rooms if not room.summary or not room.files] == []


def test_imports_point_down() -> None:
    imports = count_imports()
    order = [*PACKAGES]
    assert imports["backend", "bridge"] > 0
    assert [pair for pair in imports if order.index(pair[0]) > order.index(pair[1])] == []


def test_the_picture_shows_all_rooms() -> None:
    texts = {text.text for text in ET.fromstring(draw_rooms()).iter(f"{NAMESPACE}text")}  # noqa: S314 - made here
    assert {room.name for package in PACKAGES for room in find_rooms(package)} <= texts
    assert sum(line.startswith("| `caffe2_") for line in table_of_rooms()) == sum(len(find_rooms(p)) for p in PACKAGES)


def test_a_pipeline_has_a_box_for_each_pass() -> None:
    found = ET.fromstring(draw_pipeline(EXPORT, "frontend"))  # noqa: S314 - made here
    assert len([*found.iter(f"{NAMESPACE}rect")]) == len(EXPORT)
    assert "LowerNet" in {text.text for text in found.iter(f"{NAMESPACE}text")}
