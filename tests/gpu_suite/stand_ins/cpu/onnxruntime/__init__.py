"""onnxruntime with the CPU under the name of CUDA, and a CUDA driver with one device, for rehearsals without a GPU.

This folder comes first on the path: the module replaces itself by the onnxruntime that stands after it, and changes
that. Environment variables plan faults: GPU_SUITE_DRIVER (the driver's CUDA version, such as 12040), GPU_SUITE_PROVIDER
(a folder that takes the place of onnxruntime's own when its CUDA provider's libraries are looked for).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpu_suite.stand_ins.renamed import CUDA, install_driver, is_cuda, real_library, rename


def _change(library: Any) -> None:
    class InferenceSession(library.InferenceSession):  # type: ignore[misc] # the real one has no types
        def __init__(
            self, model: Any, options: Any = None, providers: Sequence[Any] = (), *more: Any, **named: Any
        ) -> None:
            self._asked_for_cuda = any(map(is_cuda, providers))
            kept = [provider for provider in providers if not is_cuda(provider)]
            super().__init__(model, options, kept or None, *more, **named)

        def get_providers(self) -> list[str]:
            names: list[str] = super().get_providers()
            return [CUDA, *names] if self._asked_for_cuda else names

    library.InferenceSession = InferenceSession
    rename(library, "cpu")
    provider = os.environ.get("GPU_SUITE_PROVIDER")
    if provider:
        library.__file__ = str(Path(provider) / "__init__.py")


_change(real_library(__file__))
install_driver()
