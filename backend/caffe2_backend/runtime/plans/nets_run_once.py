"""Nets and operators that run once, kept in converted form in case they run again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from caffe2_backend.runtime.plans.prepared_net import PreparedNet, is_init_net
from caffe2_bridge.proto.caffe2_pb2 import NetDef

_KEPT: Final = 256


class NetsRunOnce:
    """Prepared nets by their bytes; init nets are not kept: they are large and fast to prepare.

    Args:
        prepare: prepares a net.
    """

    def __init__(self, prepare: Callable[[NetDef], PreparedNet]) -> None:
        self._prepare = prepare
        self._lock = threading.RLock()
        self._kept: OrderedDict[bytes, PreparedNet] = OrderedDict()

    @property
    def conversions(self) -> int:
        """How many conversions of these nets there were."""
        with self._lock:
            return sum(prepared.conversions for prepared in self._kept.values())

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._kept = OrderedDict()

    def shared(self, net: NetDef) -> PreparedNet:
        """Return the net, prepared; what its operators keep from run to run is shared by all who run it."""
        if is_init_net(net):
            return self._prepare(net)
        key = net.SerializeToString(deterministic=True)
        with self._lock:
            return self._keep(self._kept, key, self._kept.get(key) or self._prepare(net))

    @contextmanager
    def lent(self, net: NetDef) -> Iterator[PreparedNet]:
        """Yield the net, prepared, for one run; another run meanwhile gets its own if operators keep something."""
        init = is_init_net(net)
        key = b"" if init else net.SerializeToString(deterministic=True)
        with self._lock:
            kept = self._kept
            prepared = kept.pop(key, None) or self._prepare(net)
            if not init and not prepared.keeps:
                self._keep(kept, key, prepared)
        try:
            yield prepared
        finally:
            prepared.restart()
            if not init and prepared.keeps:
                with self._lock:
                    self._keep(kept, key, prepared)

    @staticmethod
    def _keep(kept: OrderedDict[bytes, PreparedNet], key: bytes, prepared: PreparedNet) -> PreparedNet:
        kept[key] = prepared
        kept.move_to_end(key)
        while len(kept) > _KEPT:
            kept.popitem(last=False)
        return prepared
