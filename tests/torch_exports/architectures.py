"""Small models of the architectures in use today: vision, language, speech, state space, diffusion, detection."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as f

WIDTH = 16
HEADS = 4


class Residual(nn.Module):
    """A ResNet block: two convolutions, and one for the shortcut where the size changes."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer))
        self.short = nn.Identity() if stride == 1 else nn.Conv2d(inner, outer, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(self.first(x)) + self.short(x))


class ResidualNet(nn.Module):
    """A ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.blocks = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2))
        self.out = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.blocks(self.pool(self.stem(x)))
        return self.out(f.adaptive_avg_pool2d(y, 1).flatten(1))


class Inverted(nn.Module):
    """A MobileNetV3 block: expansion, depthwise convolution, squeeze and excitation, projection."""

    def __init__(self) -> None:
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(8, 24, 1), nn.BatchNorm2d(24), nn.Hardswish())
        self.depthwise = nn.Sequential(nn.Conv2d(24, 24, 5, 1, 2, groups=24), nn.BatchNorm2d(24), nn.Hardswish())
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(24, 6, 1), nn.ReLU(), nn.Conv2d(6, 24, 1))
        self.project = nn.Conv2d(24, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.depthwise(self.expand(x))
        return x + self.project(y * f.hardsigmoid(self.squeeze(y)))


class MobileNet(nn.Module):
    """A MobileNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.block, self.out = nn.Conv2d(3, 8, 3, 2, 1), Inverted(), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.out(self.block(self.stem(x)).mean((2, 3))), 1)


class Block(nn.Module):
    """A transformer block with the norm in front."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.joined, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        parts = self.joined(self.norm1(x)).reshape(n, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        made = f.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        x = x + self.out(made.transpose(1, 2).reshape(n, t, WIDTH))
        return x + self.narrow(f.gelu(self.wide(self.norm2(x))))


class VisionTransformer(nn.Module):
    """Patches, a class token, positions, blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.randn(1, 17, WIDTH))
        self.blocks, self.norm, self.out = nn.Sequential(Block(), Block()), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(x.shape[0], -1, -1), y], 1) + self.positions
        return self.out(self.norm(self.blocks(y))[:, 0])


class RootMeanSquare(nn.Module):
    """RMSNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Decoder(nn.Module):
    """A Llama layer with a past: RMSNorm, rotary positions, grouped queries, SwiGLU."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, WIDTH)
        self.norm1, self.norm2 = RootMeanSquare(), RootMeanSquare()
        self.query, self.key, self.value = (nn.Linear(WIDTH, size, bias=False) for size in (16, 8, 8))
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up, self.down = (nn.Linear(*sizes, bias=False) for sizes in ((16, 32), (16, 32), (32, 16)))

    def rotate(self, x: Tensor, past: int) -> Tensor:
        frequencies = 1.0 / 10000 ** (torch.arange(0, 4, 2).float() / 4)
        angles = torch.outer(torch.arange(past, past + x.shape[2]).float(), frequencies)
        both = torch.cat([angles, angles], -1)
        turned = torch.cat([-x[..., 2:], x[..., :2]], -1)
        return x * both.cos() + turned * both.sin()

    def forward(self, ids: Tensor, past_key: Tensor, past_value: Tensor) -> Any:
        x = self.embedding(ids)
        n, t, _ = x.shape
        past = past_key.shape[2]
        y = self.norm1(x)
        query = self.rotate(self.query(y).view(n, t, 4, 4).transpose(1, 2), past)
        key = torch.cat([past_key, self.rotate(self.key(y).view(n, t, 2, 4).transpose(1, 2), past)], 2)
        value = torch.cat([past_value, self.value(y).view(n, t, 2, 4).transpose(1, 2)], 2)
        scores = query @ key.repeat_interleave(2, 1).transpose(2, 3) / 2
        steps = torch.arange(past + t)
        scores = scores.masked_fill(steps[None, :] > steps[past:, None], float("-inf"))
        made = torch.softmax(scores, -1) @ value.repeat_interleave(2, 1)
        x = x + self.out(made.transpose(1, 2).reshape(n, t, WIDTH))
        y = self.norm2(x)
        x = x + self.down(f.silu(self.gate(y)) * self.up(y))
        return x @ self.embedding.weight.T, key, value


class SpeechEncoder(nn.Module):
    """The encoder of Whisper: convolutions over time, positions of sines, blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(8, WIDTH, 3, 1, 1), nn.Conv1d(WIDTH, WIDTH, 3, 2, 1)
        self.block = Block()

    def forward(self, x: Tensor) -> Tensor:
        y = f.gelu(self.second(f.gelu(self.first(x)))).transpose(1, 2)
        scale = torch.exp(-math.log(10000.0) / 7 * torch.arange(8).float())
        angles = torch.arange(y.shape[1]).float()[:, None] * scale[None]
        return self.block(y + torch.cat([angles.sin(), angles.cos()], 1))


class StateSpace(nn.Module):
    """A Mamba layer, its selective scan written as a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.conv = nn.Linear(WIDTH, 16), nn.Conv1d(8, 8, 4, groups=8, padding=3)
        self.chosen, self.step, self.out = nn.Linear(8, 12), nn.Linear(4, 8), nn.Linear(8, WIDTH)
        self.decay = nn.Parameter(torch.rand(8, 4))
        self.direct = nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        steps = x.shape[1]
        y, gate = self.into(x).chunk(2, -1)
        y = f.silu(self.conv(y.transpose(1, 2))[..., :steps].transpose(1, 2))
        time, into, out = self.chosen(y).split([4, 4, 4], -1)
        delta = f.softplus(self.step(time))
        kept = torch.exp(delta.unsqueeze(-1) * -torch.exp(self.decay))
        added = delta.unsqueeze(-1) * into.unsqueeze(2) * y.unsqueeze(-1)
        state = torch.zeros_like(added[:, 0])
        rows = []
        for i in range(steps):
            state = kept[:, i] * state + added[:, i]
            rows.append((state * out[:, i].unsqueeze(1)).sum(-1))
        return self.out((torch.stack(rows, 1) + y * self.direct) * f.silu(gate))


class Diffusion(nn.Module):
    """A UNet of one level, told the time."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(8, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.into, self.norm = nn.Conv2d(3, WIDTH, 3, 1, 1), nn.GroupNorm(4, WIDTH)
        self.down, self.middle = nn.Conv2d(WIDTH, WIDTH, 3, 2, 1), nn.Conv2d(WIDTH, WIDTH, 3, 1, 1)
        self.out = nn.Conv2d(2 * WIDTH, 3, 3, 1, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        angles = time[:, None] * torch.exp(-math.log(10000.0) * torch.arange(4) / 4)[None]
        embedded = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        high = f.silu(self.norm(self.into(x)))
        low = self.middle(f.silu(self.down(high) + embedded[:, :, None, None]))
        return self.out(torch.cat([high, f.interpolate(low, scale_factor=2.0, mode="nearest")], 1))


class Detector(nn.Module):
    """The head of a detector without anchors: boxes by offsets from a grid, the best of them."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.SiLU())
        self.boxes, self.scores = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 3, 1)

    def forward(self, x: Tensor) -> Any:
        y = self.features(x)
        rows, columns = torch.meshgrid(torch.arange(y.shape[2]), torch.arange(y.shape[3]), indexing="ij")
        grid = (torch.stack([columns, rows], 0).float() + 0.5).flatten(1)[None]
        raw = self.boxes(y).flatten(2)
        center, size = grid + raw[:, :2].sigmoid(), raw[:, 2:].exp()
        boxes = torch.cat([center - size / 2, center + size / 2], 1).transpose(1, 2) * 4
        best, index = self.scores(y).flatten(2).sigmoid().max(1)
        scores, chosen = best.topk(5, 1)
        return scores, index.gather(1, chosen), boxes.gather(1, chosen.unsqueeze(-1).expand(-1, -1, 4)).clamp(0, 16)


class Bags(nn.Module):
    """Bags of words: the exporter of torch.export writes them as loops over slices, with sequences and branches."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.largest = nn.EmbeddingBag(11, 6, mode="mean"), nn.EmbeddingBag(11, 6, mode="max")

    def forward(self, ids: Tensor) -> Tensor:
        return self.mean(ids) + self.largest(ids)


class Doubles(nn.Module):
    """Normalization and softmax in double precision."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(8, dtype=torch.float64), nn.Linear(8, 5, dtype=torch.float64)

    def forward(self, x: Tensor) -> Any:
        y = self.norm(x)
        return torch.softmax(self.out(y), -1), y.mean((1, 2)), y.std(-1)


class Spectrum(nn.Module):
    """The logarithm of a spectrogram."""

    def forward(self, x: Tensor) -> Tensor:
        parts = torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=False)
        return parts.pow(2).sum(-1).clamp(min=1e-5).log10()
