"""Sketches in graphviz's language."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Final

from caffe2_backend.picture.sketch import Box, Edge, Kind, Node, Sketch

_FONT: Final = "Helvetica,Arial,sans-serif"
_INK, _PALE, _LINE = "#1f2933", "#66717d", "#8995a1"
_HOST: Final = "#dfe8f1"
_ACCELERATORS: Final = ("#cfe8cf", "#fbe3b8", "#e5d6f2", "#f8d3cb", "#cdeaea", "#f3e0ec", "#e4e8c4", "#d9d9d9")
_PAPER: Final = ("#ffffff", "#f6f6f2")  # bodies, in turns by depth
_SMALL, _LARGE = 9, 11
_MOST_LINES: Final = 8
_BIG_PICTURE: Final = 400  # nodes; above, graphviz gets faster settings, as curves and few crossings take long
_QUICK: Final = "splines=polyline, nslimit=2, mclimit=0.5"


def to_dot(sketch: Sketch) -> str:
    """Return the text that graphviz's ``dot`` draws: colours are devices."""
    return "\n".join(_document(sketch, colours_of(sketch))) + "\n"


def _document(sketch: Sketch, colours: Mapping[str, str]) -> Iterator[str]:
    big = sum(1 for _ in sketch.whole.every_node()) > _BIG_PICTURE
    yield "digraph model {"
    yield (
        f'  graph [fontname="{_FONT}", fontsize=14, fontcolor="{_INK}", labelloc=t, labeljust=l, bgcolor=white, '
        f"pad=0.3, nodesep=0.25, ranksep=0.25, {_QUICK if big else 'splines=true'}, "
        f"label=<<B>{_safe(sketch.title)}</B><BR/> >];"
    )
    yield f'  node [fontname="{_FONT}", fontsize={_LARGE}, fontcolor="{_INK}", color="{_LINE}", penwidth=0.8];'
    yield (
        f'  edge [fontname="{_FONT}", fontsize={_SMALL}, fontcolor="{_PALE}", color="{_LINE}", penwidth=0.9, '
        "arrowsize=0.6];"
    )
    if len(colours) > 1:
        yield from _legend(colours)
    yield from _content(sketch.whole, colours)
    for edge in sketch.edges:
        yield f"  {edge.source} -> {edge.target} {_edge(edge)};"
    yield "}"


def colours_of(sketch: Sketch) -> dict[str, str]:
    """Return the colour of each device: the host's is always the same."""
    devices = sketch.devices()
    others = [device for device in devices if device != "CPU"]
    found = {device: _ACCELERATORS[i % len(_ACCELERATORS)] for i, device in enumerate(others)}
    return {device: found.get(device, _HOST) for device in devices}


def _content(box: Box, colours: Mapping[str, str]) -> Iterator[str]:
    for node in box.nodes:
        yield f"  {node.key} {_node(node, colours)};"
    for inner in box.boxes:
        yield f"  subgraph cluster_{inner.key} {{"
        title = f"<B>{_safe(inner.title)}</B>" if inner.title else " "
        if inner.body:
            style = f'style="rounded,filled", fillcolor="{_PAPER[0]}", color="{_LINE}", penwidth=0.6'
        else:
            style = f'style="rounded,filled", fillcolor="{_PAPER[1]}", color="{_LINE}", penwidth=1.2'
        yield (
            f'    graph [label=<{title}>, {style}, fontsize={_LARGE - 1}, fontcolor="{_PALE}", labeljust=l, margin=10];'
        )
        yield from _content(inner, colours)
        yield "  }"


def _node(node: Node, colours: Mapping[str, str]) -> str:
    tooltip = f"tooltip={_quoted(node.tooltip or node.title)}"
    if node.kind is Kind.JOIN:
        return f'[shape=circle, label="", width=0.09, style=filled, fillcolor="{_LINE}", {tooltip}]'
    if node.kind is Kind.OPERATOR:
        colour = colours.get(node.device, _HOST)
        style = f'shape=box, style="rounded,filled", fillcolor="{colour}", height=0.3, margin="0.1,0.05"'
        return f"[{style}, label={_label(node)}, {tooltip}]"
    label = _label(node)
    fill = "#fff7df" if node.kind is Kind.INPUT else "#eef6ea"
    return (
        f'[shape=box, style="rounded,filled", fillcolor="{fill}", height=0.25, margin="0.1,0.02", '
        f"label={label}, {tooltip}, class={node.kind}]"
    )


def _label(node: Node) -> str:
    bold = node.kind is Kind.OPERATOR
    rows = [f"<B>{_safe(node.title)}</B>" if bold else _safe(node.title)]
    shown = node.lines if len(node.lines) <= _MOST_LINES else (*node.lines[: _MOST_LINES - 1], "…")
    rows += [f'<FONT POINT-SIZE="{_SMALL}" COLOR="{_PALE}">{_safe(line)}</FONT>' for line in shown]
    cells = "".join(f"<TR><TD>{row}</TD></TR>" for row in rows)
    return f'<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1">{cells}</TABLE>>'


def _edge(edge: Edge) -> str:
    if not edge.data:
        return f'[style=dotted, arrowhead=none, color="{_LINE}", weight=2, tooltip=" "]'
    # The empty cell keeps the text off the line that it stands at.
    lines = map(_safe, edge.label.split("\n"))
    rows = "".join(f'<TR><TD WIDTH="5"></TD><TD ALIGN="LEFT">{line}</TD></TR>' for line in lines)
    table = f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="0">{rows}</TABLE>'
    shown = f"label=<{table}>, " if edge.label else ""
    tooltip = _quoted(edge.tooltip)
    return f"[{shown}edgetooltip={tooltip}, labeltooltip={tooltip}]"


def _legend(colours: Mapping[str, str]) -> Iterator[str]:
    rows = "".join(
        f'<TR><TD BGCOLOR="{colour}" WIDTH="16"> </TD><TD ALIGN="LEFT">{_safe(group)}</TD></TR>'
        for group, colour in colours.items()
    )
    yield (
        '  legend [shape=plaintext, tooltip="colours", '
        f'label=<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="3">{rows}</TABLE>>];'
    )


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _safe(text: str) -> str:
    """Return text for labels and tooltips: graphviz reads HTML's entities in both.

    It also reads escapes of its own, such as a backslash and N for the node's name, however the backslash is written:
    a character that looks like one stands for it.
    """
    return html.escape(_printable(text)).replace("\\", "\N{REVERSE SOLIDUS OPERATOR}")


def _quoted(text: str) -> str:
    """Return text within quotes."""
    return '"' + "\\n".join(map(_safe, text.split("\n"))) + '"'
