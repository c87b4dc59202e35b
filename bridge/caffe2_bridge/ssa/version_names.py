"""Find the versions of blobs that a net makes, and give each a name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from caffe2_bridge.ssa.effects import NetEffects, OpEffects


class Names:
    """The names of one workspace, and new names ``<base>_<number>`` that no blob and no string of the nets has."""

    def __init__(self, used: set[str]) -> None:
        """Take ``used``, the names of the nets; new ones are added to it."""
        self._used = used
        self._last: dict[str, int] = {}
        self._claimed: set[str] = set()

    def workspace(self) -> Names:
        """Return the names of another workspace, which shares new names and has claims of its own."""
        other = Names(self._used)
        other._last = self._last
        return other

    def claim(self, name: str) -> bool:
        """Reserve a name of the net for a version; false if another version of the workspace has it."""
        if name in self._claimed:
            return False
        self._claimed.add(name)
        return True

    def fresh(self, base: str) -> str:
        """Return a new name. The name that Caffe2 derives for its gradient is free as well."""
        number = self._last.get(base, 0)
        while True:
            number += 1
            name = f"{base}_{number}"
            if name not in self._used and f"{name}_grad" not in self._used:
                self._last[base] = number
                self._used.add(name)
                return name


class Maker(Enum):
    """The origin of a version: it existed at entry, an operator wrote it, or an operator updated it in place."""

    ENTRY = 0
    WRITE = 1
    UPDATE = 2


class Entry(NamedTuple):
    """A blob at the entry of a net: its name, and whether it certainly holds a value."""

    name: str
    defined: bool


@dataclass(slots=True, eq=False)
class _Group:
    """Versions of one blob that share a name."""

    base: str
    name: str = ""


@dataclass(slots=True, eq=False)
class Version:
    """One version of a blob. ``defined``: it certainly holds a value."""

    group: _Group
    defined: bool
    maker: Maker
    readers: int = 0

    @property
    def name(self) -> str:
        """The name of this version; empty before NetVersions has named the net."""
        return self.group.name


@dataclass(slots=True)
class OpVersions:
    """The versions that an operator finds and those that it leaves, by old name. None: the blob had no value."""

    before: Mapping[str, Version | None]
    after: Mapping[str, Version]

    def copies(self, names: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return, by old name, (old version, new version) for each name whose value must be copied to another name."""
        found = {}
        for name in names:
            before = self.before[name]
            if before is not None and before.defined and before.name != self.after[name].name:
                found[name] = before.name, self.after[name].name
        return found


class NetVersions:
    """The versions of a net's blobs.

    ``entry`` gives the blob of a name before the net writes it (the flag: an operator certainly reads it), ``final``
    the name that the last version of a blob must have. Without one, it keeps its own name if that is free. Blobs in
    ``shared`` have other names too: all their versions keep one name.
    """

    def __init__(
        self,
        effects: NetEffects,
        entry: Callable[[str, bool], Entry | None],
        final: Callable[[str], str | None],
        names: Names,
        shared: Collection[str] = (),
    ) -> None:
        self._shared = {name: _Group(name) for name in shared}
        self._find_entry = entry
        self.entries: dict[str, Version | None] = {}
        self.last: dict[str, Version] = {}
        self._groups: list[_Group] = list(self._shared.values())
        self.ops = [self._op(op) for op in effects.ops]
        for version in self.entries.values():
            if version is not None:
                names.claim(version.name)
        for name, version in self.last.items():
            group = version.group
            if not group.name:
                target = final(name)
                if target:
                    names.claim(target)
                    group.name = target
                elif names.claim(name):
                    group.name = name
        for group in self._groups:
            group.name = group.name or names.fresh(group.base)

    def _op(self, op: OpEffects) -> OpVersions:
        if op.control is None and not (op.updates or op.mutates):
            return self._plain(op)
        before = self._before(op)
        after = {name: self._new(name) for name in op.writes}
        after.update({name: self._update(name, before[name]) for name in op.updates})
        after.update({name: self._merge(name, before[name]) for name in op.merges})
        for name in (*op.mutates, *op.passes):
            found = before[name] or self._new(name, defined=False)
            if not (found.defined and name in op.passes):
                after[name] = found
        self.last.update(after)
        return OpVersions(before, after)

    def _plain(self, op: OpEffects) -> OpVersions:
        """Return the versions around an operator that only reads some blobs and only writes others, as most do."""
        last = self.last
        before: dict[str, Version | None] = {}
        for name in op.reads:
            if name in before:
                continue
            version = last.get(name) or self._find(name, sure=True)
            before[name] = version
            if version is not None:
                version.readers += 1
                if not version.defined:
                    before[name] = last[name] = replace(version, defined=True)  # or this operator fails
        after = {name: self._new(name) for name in op.writes}
        last.update(after)
        return OpVersions(before, after)

    def _before(self, op: OpEffects) -> dict[str, Version | None]:
        before: dict[str, Version | None] = {}
        for name in op.reads:
            if name not in before:
                before[name] = self._find(name, sure=True)
        for names in (op.updates, op.merges, op.mutates, op.passes, op.soft, op.through):
            for name in names:
                if name not in before:
                    before[name] = self._find(name, sure=False)
        for name, version in before.items():
            if version is not None:
                version.readers += 1
                if not version.defined and not op.bodies and name in op.reads:
                    before[name] = self.last[name] = replace(version, defined=True)  # or this operator fails
        return before

    def _find(self, name: str, *, sure: bool) -> Version | None:
        version = self.last.get(name)
        if version is not None:
            return version
        known = self.entries.get(name)
        if known is None:
            entry = self._find_entry(name, sure)
            known = None if entry is None else Version(_Group(name, entry.name), entry.defined, Maker.ENTRY)
            self.entries[name] = known
        return known

    def _new(self, name: str, *, defined: bool = True) -> Version:
        group = self._shared.get(name)
        if group is None:
            group = _Group(name)
            self._groups.append(group)
        return Version(group, defined, Maker.WRITE)

    def _update(self, name: str, prior: Version | None) -> Version:
        """Make the version after an update in place: it keeps the name if it is the only reader of a written version.

        A value that may not exist cannot be copied to another name, so its name stays.
        """
        if prior is None:
            return self._new(name, defined=False)
        if not prior.defined or (prior.maker is Maker.WRITE and prior.readers == 1):
            return Version(prior.group, prior.defined, Maker.UPDATE)
        version = self._new(name)
        version.maker = Maker.UPDATE
        return version

    def _merge(self, name: str, prior: Version | None) -> Version:
        if prior is None:
            return self._new(name, defined=False)
        if not prior.defined:
            return Version(prior.group, defined=False, maker=Maker.UPDATE)
        return self._new(name)
