"""The names of temporaries, which say what they are temporaries of."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from typing import Final

_RANDOM: Final = 4  # bytes
_LONGEST: Final = 200  # bytes of a target's name that is part of the name of its temporaries; file systems allow 255


def temporary_name(target: str) -> str:
    """Return a name for a temporary of a target of this name."""
    return f".{_stem(target)}.{secrets.token_hex(_RANDOM)}.tmp"


def is_temporary_of(name: str, target: str) -> bool:
    """Whether a name is that of a temporary of a target of this name."""
    return re.fullmatch(rf"\.{re.escape(_stem(target))}\.[0-9a-f]{{{2 * _RANDOM}}}\.tmp", name) is not None


def _stem(target: str) -> str:
    encoded = os.fsencode(target)
    return target if len(encoded) <= _LONGEST else hashlib.sha256(encoded).hexdigest()
