"""Minimum cuts of graphs with two terminals: Boykov and Kolmogorov's algorithm.

Two trees grow from the terminals, along edges that have capacity left. Where they touch, flow is pushed along the path;
edges of it that are full leave orphans, which find another parent in their tree, or become free. Paths found are short
where flow is local, as in nets, and the trees are kept from one path to the next.

Y. Boykov, V. Kolmogorov, "An Experimental Comparison of Min-Cut/Max-Flow Algorithms for Energy Minimization in Vision",
IEEE PAMI 26 (9), 2004.
"""

from __future__ import annotations

from collections import deque
from typing import Final

_FREE: Final = -1  # has no parent
_ROOT: Final = -2  # the parent is a terminal
_ORPHAN: Final = -3


class MinCut:
    """A graph of ``count`` nodes, 0 ... count - 1, between a source and a sink."""

    def __init__(self, count: int) -> None:
        self._terminal = [0.0] * count  # capacity left from the source, or, negative, to the sink
        self._flow = 0.0
        self._arcs: list[list[int]] = [[] for _ in range(count)]
        self._head: list[int] = []
        self._left: list[float] = []  # capacity left; arc ^ 1 is the arc in the other direction

    def add_node(self) -> int:
        """Add a node; its number."""
        self._terminal.append(0.0)
        self._arcs.append([])
        return len(self._arcs) - 1

    def terminals(self, node: int, source: float, sink: float) -> None:
        """Add edges from the source to a node, and from the node to the sink."""
        before = self._terminal[node]
        if before > 0:
            source += before
        else:
            sink -= before
        self._flow += min(source, sink)
        self._terminal[node] = source - sink

    def edge(self, one: int, other: int, forth: float, back: float) -> None:
        """Add edges from one node to another and back."""
        arc = len(self._head)
        self._head += (other, one)
        self._left += (forth, back)
        self._arcs[one].append(arc)
        self._arcs[other].append(arc + 1)

    def solve(self) -> tuple[float, list[bool]]:
        """Return the capacity of a minimum cut, and whether each node is on the side of the source."""
        search = _Search(self._terminal, self._arcs, self._head, self._left)
        search.run()
        reached = [parent != _FREE and source for parent, source in zip(search.parent, search.source, strict=True)]
        return self._flow + search.flow, reached


class _Search:
    def __init__(self, terminal: list[float], arcs: list[list[int]], head: list[int], left: list[float]) -> None:
        self.terminal, self.arcs, self.head, self.left = terminal, arcs, head, left
        self.flow = 0.0
        self.parent = [_ROOT if capacity else _FREE for capacity in terminal]  # the arc to the parent
        self.source = [capacity > 0 for capacity in terminal]  # in the tree of the source
        self._distance = [1] * len(terminal)
        self._checked = [0] * len(terminal)  # the time at which the distance was known to be right
        self._time = 0
        self._active = deque(node for node, capacity in enumerate(terminal) if capacity)
        self._orphans: deque[int] = deque()

    def run(self) -> None:
        active = self._active
        while active:
            node = active[0]
            if self.parent[node] == _FREE:
                active.popleft()
                continue
            touching = self._grow(node)
            if touching is None:
                active.popleft()
                continue
            self._time += 1
            self._augment(touching)
            while self._orphans:
                self._adopt(self._orphans.popleft())

    def _grow(self, node: int) -> int | None:
        """Add free neighbors to the tree of a node; the arc from the source's tree to the sink's if they touch."""
        parent, source, head, left = self.parent, self.source, self.head, self.left
        from_source = source[node]
        flip = 0 if from_source else 1
        distance, checked = self._distance[node] + 1, self._checked[node]
        for arc in self.arcs[node]:
            if left[arc ^ flip] <= 0:
                continue
            other = head[arc]
            if parent[other] == _FREE:
                source[other] = from_source
                parent[other] = arc ^ 1
                self._distance[other] = distance
                self._checked[other] = checked
                self._active.append(other)
            elif source[other] != from_source:
                return arc ^ flip
        return None

    def _augment(self, touching: int) -> None:
        """Push as much flow as fits through a path; nodes whose edge to the parent is full become orphans."""
        head, left, terminal = self.head, self.left, self.terminal
        up, upper = self._path(head[touching ^ 1])
        down, lower = self._path(head[touching])
        flow = min(left[touching], terminal[upper], -terminal[lower])
        for arc in up:
            flow = min(flow, left[arc ^ 1])
        for arc in down:
            flow = min(flow, left[arc])
        left[touching] -= flow
        left[touching ^ 1] += flow
        for arcs, flip in ((up, 1), (down, 0)):
            for arc in arcs:
                left[arc ^ flip] -= flow
                left[arc ^ flip ^ 1] += flow
                if left[arc ^ flip] <= 0:
                    self._orphan(head[arc ^ 1])
        terminal[upper] -= flow
        terminal[lower] += flow
        for node in (upper, lower):
            if not terminal[node]:
                self._orphan(node)
        self.flow += flow

    def _path(self, node: int) -> tuple[list[int], int]:
        """Return the arcs from a node to its root, and the root."""
        parent, head = self.parent, self.head
        arcs = []
        while (arc := parent[node]) != _ROOT:
            arcs.append(arc)
            node = head[arc]
        return arcs, node

    def _orphan(self, node: int) -> None:
        self.parent[node] = _ORPHAN
        self._orphans.appendleft(node)

    def _adopt(self, node: int) -> None:
        """Find the nearest parent that leads to the terminal; else the node is free, and its children are orphans."""
        parent, source, head, left = self.parent, self.source, self.head, self.left
        from_source = source[node]
        flip = 1 if from_source else 0
        best, nearest = _FREE, 0
        for arc in self.arcs[node]:
            other = head[arc]
            if left[arc ^ flip] > 0 and source[other] == from_source and parent[other] not in {_FREE, _ORPHAN}:
                distance = self._to_root(other)
                if distance and (best == _FREE or distance < nearest):
                    best, nearest = arc, distance
        parent[node] = best
        if best != _FREE:
            self._checked[node] = self._time
            self._distance[node] = nearest + 1
            return
        for arc in self.arcs[node]:
            other = head[arc]
            if source[other] != from_source or parent[other] == _FREE:
                continue
            if left[arc ^ flip] > 0:
                self._active.append(other)
            if parent[other] >= 0 and head[parent[other]] == node:
                parent[other] = _ORPHAN
                self._orphans.append(other)

    def _to_root(self, node: int) -> int:
        """Return the distance of a node from its terminal; 0 if an orphan is in between. It is noted along the way."""
        parent, head, checked, time = self.parent, self.head, self._checked, self._time
        trail = []
        while True:
            if checked[node] == time:
                distance = self._distance[node]
                break
            trail.append(node)
            arc = parent[node]
            if arc == _ROOT:
                distance = 0
                break
            if arc in {_ORPHAN, _FREE}:
                return 0
            node = head[arc]
        for above in reversed(trail):
            distance += 1
            checked[above] = time
            self._distance[above] = distance
        return distance
