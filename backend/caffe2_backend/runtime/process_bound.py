"""What belongs to the process that made it."""

from __future__ import annotations

from typing import Any, NoReturn


class ProcessBound:
    """Base of what holds sessions of onnxruntime: it cannot be pickled or copied, and says what to do instead."""

    def __reduce_ex__(self, protocol: Any, /) -> NoReturn:
        refuse_pickling(self)


def refuse_pickling(value: object) -> NoReturn:
    """Raise TypeError for an object that holds sessions."""
    kind = type(value).__name__
    raise TypeError(
        f"a {kind} cannot be pickled or copied, since its sessions belong to this process: "
        f"send the model, or its path, and arrays, and make a {kind} of them where they arrive"
    )
