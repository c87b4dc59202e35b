"""Sessions of one model, which programs share while one of them uses a session, and small ones for longer."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from caffe2_backend.runtime.sessions.session import Session

_MOST_KEPT: Final = 64
_kept: Final[OrderedDict[int, Session]] = OrderedDict()  # by id; the most recently used ones
_keeping: Final = threading.Lock()


class SharedSessions:
    """Sessions by what decides them; several threads may use them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: list[tuple[Any, weakref.ref[Session]]] = []

    def get(self, key: Any, make: Callable[[], Session], *, keep: bool) -> Session:
        """Return the session that was made for an equal key, if it is in use or kept; else a new one.

        Args:
            key: a value that can be compared.
            make: makes a session.
            keep: whether it stays for a while when nothing uses it any more.
        """
        with self._lock:
            self._made = [(other, reference) for other, reference in self._made if reference() is not None]
            found = next((reference() for other, reference in self._made if other == key), None)
            if found is None:
                found = make()
                self._made.append((key, weakref.ref(found)))
        if keep:
            _keep(found)
        return found


def _keep(session: Session) -> None:
    with _keeping:
        _kept[id(session)] = session
        _kept.move_to_end(id(session))
        dropped = _kept.popitem(last=False)[1] if len(_kept) > _MOST_KEPT else None
    del dropped  # freed without the lock


def release_sessions() -> None:
    """Let go of the sessions that nothing uses."""
    with _keeping:
        dropped = [*_kept.values()]
        _kept.clear()
    del dropped
