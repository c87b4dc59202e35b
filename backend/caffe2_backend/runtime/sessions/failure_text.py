"""What onnxruntime says of a failure, without the places in its own sources."""

from __future__ import annotations

import re
from typing import Final

# How texts of errors name a node, here and where memory is missing.
NODE_NAME: Final = re.compile(r"(?<=\bnode ')[^']+")
# The number and name of a status, then, once for each body, the node that failed.
_CODE: Final = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : ")
_NODE: Final = re.compile(
    r"Non-zero status code returned while running (\S+) node\. Name:'(.*?)' Status Message: ", re.DOTALL
)
# A file and line, the function in it, and the condition that did not hold; the message comes after them.
_PLACE: Final = re.compile(r"\S+\.(?:h|hpp|cc|cpp|cu|cuh):\d+ ")
_SIGNATURE: Final = re.compile(r"[^()]*\((?:[^()]|\([^()]*\))*\)(?: const)? ")
_CONDITION: Final = re.compile(r"(.*? was false\.)\s*", re.DOTALL)


def failure_text(text: str) -> str:
    """Return the message of an error of onnxruntime: which node failed, and why. Other text is returned as it is."""
    rest = _CODE.sub("", text, count=1)
    nodes = []
    while (found := _NODE.match(rest)) is not None:  # of a body, then of the node within it
        nodes.append(f"{found[1]} node '{found[2]}'" if found[2] else f"{found[1]} node")
        rest = rest[found.end() :]
    return ": ".join([*nodes, _without_place(rest).strip()])


def failed_node(text: str) -> str | None:
    """Return the name of the node of the graph that an error of a run names, None where it names none."""
    found = NODE_NAME.search(text)
    return found and found[0]


def _without_place(text: str) -> str:
    """Return a message without the line and function of C++, and without the condition that it explains."""
    place = _PLACE.match(text)
    signature = _SIGNATURE.match(text, place.end()) if place else None
    if signature is None:
        return text[place.end() :] if place else text
    condition = _CONDITION.match(text, signature.end())
    return (text[condition.end() :].strip() or condition[1]) if condition else text[signature.end() :]
