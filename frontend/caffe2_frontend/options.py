"""Options of an export."""

from __future__ import annotations

from typing import Literal

Recurrent = Literal["auto", "fused", "scan", "loop"]
