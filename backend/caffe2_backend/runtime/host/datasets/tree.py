"""Trees of fields: columns of a dataset, some of which hold the lengths of lists that others concatenate.

A field is named by its path, whose parts are separated by colons. A field ``a:b:lengths`` gives, for each element of
the domain in which it lies, the number of elements of the fields under ``a:b``. The fields outside of all lists are
the root domain: its elements are the records.

    documents:lengths                 root domain         2, 1
    documents:words:lengths           documents           1, 2, 1
    documents:words:id                documents:words     7, 8, 9, 7

Sources: caffe2/operators/dataset_ops.h and the values that real Caffe2 1.9.1 returns.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from caffe2_backend.runtime.values import Array, HostObject

SEPARATOR: Final = ":"
_LENGTHS: Final = "lengths"
_UNBOUNDED: Final = int(np.iinfo(np.int64).max)


class TreeError(ValueError):
    """The fields, or the columns, are not those of a tree."""


@dataclass(frozen=True)
class Tree:
    """The structure of a dataset.

    Attributes:
        fields: the names.
        lengths: indices of the fields that are lengths; number ``d`` of them is that of domain ``d + 1``.
        domains: of each field, 0 for the root domain.
    """

    fields: tuple[str, ...]
    lengths: tuple[int, ...]
    domains: tuple[int, ...]

    @classmethod
    def of(cls, fields: Sequence[str]) -> Tree:
        """Find the structure from the names. Raises TreeError if a field comes before the lengths of its domain."""
        parts = [tuple(name.split(SEPARATOR)) for name in fields]
        lengths = tuple(i for i, path in enumerate(parts) if path[-1] == _LENGTHS)
        domains = []
        for i, path in enumerate(parts):
            around = [d for d, j in enumerate(lengths, 1) if j != i and len(parts[j]) > 1 and _encloses(parts[j], path)]
            # The innermost one; of several with one name, the first.
            domain = max(around, key=lambda d: (len(parts[lengths[d - 1]]), -d), default=0)
            if domain and lengths[domain - 1] > i:
                raise TreeError(f"field {fields[i]!r} comes before {fields[lengths[domain - 1]]!r}, its lengths")
            domains.append(domain)
        return cls(tuple(fields), lengths, tuple(domains))

    @property
    def domain_count(self) -> int:
        """The number of domains."""
        return len(self.lengths) + 1

    def sizes(self, columns: Sequence[Array]) -> list[int]:
        """Return the number of elements of each domain, that of its shortest column. Raises TreeError as :meth:`check`.

        A list without fields, such as one of field ``lengths``, is never too short.
        """
        self.check(columns)
        sizes = [0] + [_UNBOUNDED] * len(self.lengths)
        for domain in range(self.domain_count):
            own = [len(column) for column, of in zip(columns, self.domains, strict=True) if of == domain]
            sizes[domain] = min(own, default=sizes[domain])
        return sizes

    def check(self, columns: Sequence[Array]) -> None:
        """Raise TreeError unless there is a column for each field, none a scalar, and lengths are int32."""
        if len(columns) != len(self.fields):
            raise TreeError(f"{len(self.fields)} fields need as many columns, not {len(columns)}")
        for name, column in zip(self.fields, columns, strict=True):
            if not column.ndim:
                raise TreeError(f"field {name!r} must have one dim at least")
        for index in self.lengths:
            if columns[index].dtype != np.int32 and columns[index].size:
                raise TreeError(f"field {self.fields[index]!r} must be int32, not {columns[index].dtype.name}")

    def counts(self, columns: Sequence[Array], starts: Sequence[int], number: int) -> list[int]:
        """Return how many elements of each domain the next ``number`` records have, or those that are left.

        Raises TreeError if the starts are beyond the end, or a column is too short.
        """
        limits = self.sizes(columns)
        if starts[0] > limits[0]:
            raise TreeError("the cursor is beyond the end of the dataset")
        counts = [min(limits[0] - starts[0], number)]
        for domain, index in enumerate(self.lengths, 1):
            parent = self.domains[index]
            lengths = columns[index].reshape(-1)[starts[parent] : starts[parent] + counts[parent]]
            count = int(lengths.sum(dtype=np.int64))
            if starts[domain] + count > limits[domain]:
                raise TreeError(
                    f"the lengths {self.fields[index]!r} need {starts[domain] + count} elements, "
                    f"and their fields have {limits[domain]}"
                )
            counts.append(count)
        return counts

    def offsets(self, columns: Sequence[Array], starts: Sequence[int]) -> Array:
        """Return where each record from ``starts`` on begins in each domain, and a last row for the end.

        Shape [records left + 1, domains], int64. Raises TreeError as :meth:`counts`.
        """
        total = self.counts(columns, starts, self.sizes(columns)[0])
        out = np.empty((total[0] + 1, self.domain_count), np.int64)
        out[:, 0] = starts[0] + np.arange(total[0] + 1)
        for domain, index in enumerate(self.lengths, 1):
            parent = self.domains[index]
            first = starts[parent]
            sums = np.cumsum(columns[index].reshape(-1)[first : first + total[parent]], dtype=np.int64)
            out[:, domain] = starts[domain] + np.concatenate(([0], sums))[out[:, parent] - first]
        return out


def _encloses(lengths: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether a field lies in the lists of another one, which holds their lengths."""
    return path[: len(lengths) - 1] == lengths[:-1]


class TreeCursor(HostObject):
    """A position in a dataset.

    Attributes:
        tree: of the dataset.
        offsets: the next element of each domain; empty at the beginning. A random reader keeps one offset.
        lock: held while the offsets change.
    """

    type_name = "std::unique_ptr<caffe2::dataset_ops::TreeCursor>"

    def __init__(self, tree: Tree, offsets: Sequence[int] = ()) -> None:
        self.tree = tree
        self.offsets = list(offsets)
        self.lock = threading.Lock()

    def starts(self) -> list[int]:
        """Return the next element of each domain."""
        return list(self.offsets) or [0] * self.tree.domain_count
