"""The recommendation nets of ``recsys.py`` in PyTorch, from the same parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from caffe2_bridge import load
from workloads.recsys import LR, MODELS, layers

_FUSED: Final = {8: "embedding_bag_byte_rowwise_offsets", 4: "embedding_bag_4bit_rowwise_offsets"}


class TorchNet:
    """One of ``MODELS``, with the parameters and features in the files of its folder."""

    def __init__(self, name: str, folder: Path) -> None:
        """Read the files."""
        self._model, self._trains = MODELS[name]
        tables = self._model.tables
        with np.load(folder / "feed.npz") as archive:
            self._feed = {key: torch.from_numpy(archive[key]) for key in archive.files}
        self._dense = {
            name: nn.Parameter(torch.from_numpy(np.array(value, np.float32)))
            for name, value in load(folder).params.items()
            if name not in ("one", "lr")
        }
        self._tables = [self._feed[f"table_{i}"] for i in range(len(tables.rows))]
        if tables.bits == 32:
            self._tables = [nn.Parameter(table, requires_grad=self._trains) for table in self._tables]
        kind: Any = torch.optim.SGD if tables.update == "SGD" else torch.optim.Adagrad
        self._optimizers = [torch.optim.SGD(self._dense.values(), LR)]
        if self._trains:
            self._optimizers.append(kind(self._tables, LR))

    def step(self) -> dict[str, Any]:
        """Make a step; return the result by its name."""
        if not self._trains:
            with torch.no_grad():
                return {"prediction": self._forward().sigmoid().numpy()}
        for optimizer in self._optimizers:
            optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(self._forward(), self._feed["label"])
        loss.backward()  # type: ignore[no-untyped-call]
        for optimizer in self._optimizers:
            optimizer.step()
        return {"loss": loss.detach().numpy()}

    def _look_up(self, i: int) -> Any:
        lengths, ids, weights = (self._feed.get(f"{kind}_{i}") for kind in ("lengths", "ids", "weights"))
        assert lengths is not None
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)[:-1]]).long()
        tables = self._model.tables
        if tables.bits < 32:
            kernel = getattr(torch.ops.quantized, _FUSED[tables.bits])
            return kernel(self._tables[i], ids, offsets, mode=0, per_sample_weights=weights)
        mode = "mean" if tables.pooling == "Mean" else "sum"
        return nn.functional.embedding_bag(
            ids, self._tables[i], offsets, mode=mode, sparse=True, per_sample_weights=weights
        )

    def _forward(self) -> Any:
        model = self._model
        pooled, x = [self._look_up(i) for i in range(len(self._tables))], self._feed["dense"]
        for layer in layers(model):
            if layer == "top_0":
                x = self._mixed(x, pooled)
            x = nn.functional.linear(x, self._dense[f"{layer}_w"], self._dense[f"{layer}_b"])
            if layer != f"top_{len(model.top) - 1}":
                x = x.relu()
        return x + pooled[0] if model.form == "wide" else x

    def _mixed(self, x: Any, pooled: list[Any]) -> Any:
        joined = torch.cat([x, *pooled[1 if self._model.form == "wide" else 0 :]], 1)
        if self._model.form != "dlrm":
            return joined
        vectors = joined.view(len(joined), -1, self._model.tables.width)
        return torch.cat([x, torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)], 1)
