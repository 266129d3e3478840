"""A convolution, plain or transposed, and elementwise steps on it, as calls of torch's library.

Tensors are permuted and reshaped views of what the workload stores, so that channels last is a
``channels_last`` tensor. Whatever needs another layout converts within the call, where it counts.
Knows neither the expression that it was found in nor which of several calls is best.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch.nn import functional

from measure.product import Aligned, Step, apply_step
from measure.tensor import TORCH_DTYPES

#: Of what memory format the operands are handed on: as they lie, or with channels last or first.
Format = Literal["", "channels_last", "channels_first"]


@dataclass(frozen=True)
class Window:
    """One dimension of a convolution: ``x[stride * y + dilation * r - left]``.

    ``right`` is what is read past the end; both are cropped off where negative. ``flipped`` says
    that the taps run backwards.
    """

    stride: int = 1
    dilation: int = 1
    left: int = 0
    right: int = 0
    flipped: bool = False

    @property
    def native(self) -> bool:
        """Whether the convolution's own padding serves."""
        return self.left == self.right >= 0


@dataclass(frozen=True)
class Spread:
    """One dimension of a transposed convolution: ``y[stride * i + dilation * r - padding]``.

    Of what comes out, ``length`` elements from ``start`` on are kept.
    """

    stride: int
    dilation: int
    padding: int
    output_padding: int
    start: int
    length: int


@dataclass(frozen=True)
class Folded:
    """An input with its dimensions permuted, then reshaped."""

    position: int
    order: tuple[int, ...]
    shape: tuple[int, ...]

    def of(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the tensor, a view wherever there is one."""
        return inputs[self.position].permute(self.order).reshape(self.shape)


@dataclass(frozen=True)
class Convolution:
    """``out = steps(convolution(image, weights))``.

    ``image`` is [n, groups * channels, *spatial] and ``weights`` what ``torch.convolution`` takes:
    [groups * out, channels, *taps], transposed [groups * channels, out, *taps]. The result,
    [n, groups * out, *spatial], reshaped to ``split`` and permuted by ``order``, is the output.
    ``fused`` steps are taken along by the call ``by``, "" the usual one, which takes a bias.
    """

    image: Folded
    weights: Folded
    windows: tuple[Window, ...] | tuple[Spread, ...]
    groups: int
    split: tuple[int, ...]
    order: tuple[int, ...]
    steps: tuple[Step, ...]
    dtype: str
    out_dtype: str
    precision: str
    #: Which dimensions of the output are channels: what a bias runs along.
    channels: tuple[int, ...]
    format: Format = ""
    by: str = ""
    fused: int = 0

    @property
    def transposed(self) -> bool:
        """Whether it is a transposed convolution."""
        return isinstance(self.windows[0], Spread)

    @property
    def rank(self) -> int:
        """How many spatial dimensions there are."""
        return len(self.windows)

    @property
    def name(self) -> str:
        """What is called, in order."""
        head = self.by or f"conv{'_transpose' * self.transposed}{self.rank}d"
        head += "(bias)" * (self.bias is not None)
        layout = [f"in {self.format}"] if self.format else []
        return ", ".join((head, *layout, *(step.function for step in self.steps[self.fused :])))

    @property
    def bias(self) -> Aligned | None:
        """What the call itself adds along the channels."""
        return self.steps[0].operand if self.fused and self._has_bias else None  # type: ignore[return-value]  # of a bias it is Aligned

    @property
    def _has_bias(self) -> bool:
        if not self.steps or self.steps[0].function != "add":
            return False
        operand = self.steps[0].operand
        return (
            isinstance(operand, Aligned)
            and operand.dims == self.channels
            and operand.dtype == self.dtype == self.out_dtype
        )

    @property
    def pointwise(self) -> bool:
        """Whether every output is a product of matrices: taps of one, nothing skipped or padded."""
        taps = self.weights.shape[2:]
        plain = all(window == Window() for window in self.windows)
        return plain and self.groups == 1 and math.prod(taps) == 1

    def variants(self) -> Iterator[Convolution]:
        """Yield the convolution by each of the calls that torch has for it."""
        bias = replace(self, fused=int(self._has_bias))
        formats: tuple[Format, ...] = ("", "channels_last", "channels_first")
        if self.pointwise:
            yield replace(bias, by="linear")
        for layout in formats:
            made = replace(bias, format=layout)
            yield made
            if (more := made._activating) is not None:
                yield more

    @property
    def _activating(self) -> Convolution | None:
        """The call that takes a relu along, and a residual before it, if there is one."""
        if self.transposed or self.rank == 1 or self.dtype != self.out_dtype:
            return None
        names = [step.function for step in self.steps[self.fused : self.fused + 2]]
        if names[:1] == ["relu"]:
            return replace(self, by="cudnn_convolution_relu", fused=self.fused + 1)
        operand = self.steps[self.fused].operand if names == ["add", "relu"] else None
        whole = isinstance(operand, Aligned) and len(operand.dims) == len(self.order)
        if whole and isinstance(operand, Aligned) and operand.dtype == self.dtype:
            return replace(self, by="cudnn_convolution_add_relu", fused=self.fused + 2)
        return None

    def __call__(self, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> torch.Tensor | None:
        """Compute into ``output``, or return a tensor that lies as ``output`` does.

        torch has no convolution into a tensor that is given; a result that lies otherwise is
        copied.
        """
        with settings(self.precision):
            made = self.compute(inputs)
            if same_layout(made, output):
                return made
            output.copy_(made)
            return None

    def as_stored(self, inputs: Sequence[torch.Tensor]) -> bool:
        """Whether operands that lie as ``inputs`` do need no copy to have the format wanted."""
        views = [self.image.of(inputs), self.weights.of(inputs)]
        if self.rank == 1 and self.format == "channels_last":
            return False
        return all(same_layout(in_format(view, self.format), view) for view in views)

    def compute(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the workload's output in a tensor of its own, however it lies."""
        image, weights = self.image.of(inputs), self.weights.of(inputs)
        made = self._convolve(inputs, image, weights)
        out = made.reshape(self.split).permute(self.order).to(TORCH_DTYPES[self.out_dtype])
        for step in self.steps[self.fused :]:
            apply_step(step, inputs, out)
        return out

    def _convolve(
        self, inputs: Sequence[torch.Tensor], image: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        bias = None if self.bias is None else self.bias.flat(inputs)
        if self.by == "linear":
            rows = functional.linear(image.movedim(1, -1), weights.flatten(1), bias)
            return rows.movedim(-1, 1)
        flipped = [2 + n for n, w in enumerate(self.windows) if isinstance(w, Window) and w.flipped]
        weights = weights.flip(flipped) if flipped else weights
        lifted = self.rank == 1 and self.format == "channels_last"
        if lifted:  # torch has channels last in two dimensions, and in three
            image, weights = image.unsqueeze(2), weights.unsqueeze(2)
        if self.format:
            image, weights = (in_format(x, self.format) for x in (image, weights))
        made = self._call(inputs, image, weights, bias, lifted)
        made = made.squeeze(2) if lifted else made
        for dim, window in enumerate(self.windows):
            if isinstance(window, Spread) and made.shape[2 + dim] != window.length:
                made = made.narrow(2 + dim, window.start, window.length)
        return made

    def _call(
        self,
        inputs: Sequence[torch.Tensor],
        image: torch.Tensor,
        weights: torch.Tensor,
        bias: torch.Tensor | None,
        lifted: bool,
    ) -> torch.Tensor:
        extra = [0] * lifted
        ones = [1] * lifted
        stride = [*ones, *(w.stride for w in self.windows)]
        dilation = [*ones, *(w.dilation for w in self.windows)]
        if self.transposed:
            spreads = [w for w in self.windows if isinstance(w, Spread)]
            padding = [*extra, *(w.padding for w in spreads)]
            more = [*extra, *(w.output_padding for w in spreads)]
            return torch.convolution(
                image, weights, bias, stride, padding, dilation, True, more, self.groups
            )
        windows = [w for w in self.windows if isinstance(w, Window)]
        around = [(0, 0) if w.native else (w.left, w.right) for w in windows]
        if any(pair != (0, 0) for pair in around):
            image = functional.pad(image, [end for pair in reversed(around) for end in pair])
        padding = [*extra, *(w.left if w.native else 0 for w in windows)]
        if self.by and image.is_cuda:
            return self._activated(inputs, image, weights, bias, (stride, padding, dilation))
        zeros = [0] * len(stride)
        made = torch.convolution(
            image, weights, bias, stride, padding, dilation, False, zeros, self.groups
        )
        if self.by:  # only cuDNN has the step in its call
            out = made.reshape(self.split).permute(self.order)
            for step in self.steps[self.bias is not None : self.fused]:
                apply_step(step, inputs, out)
        return made

    def _activated(
        self,
        inputs: Sequence[torch.Tensor],
        image: torch.Tensor,
        weights: torch.Tensor,
        bias: torch.Tensor | None,
        how: tuple[list[int], list[int], list[int]],
    ) -> torch.Tensor:
        stride, padding, dilation = how
        if self.by == "cudnn_convolution_relu":
            return torch.cudnn_convolution_relu(
                image, weights, bias, stride, padding, dilation, self.groups
            )
        operand = self.steps[self.fused - 2].operand
        assert isinstance(operand, Aligned)  # noqa: S101  what _activating saw
        back = [self.order.index(dim) for dim in range(len(self.order))]
        added = operand.of(inputs).permute(back)
        sizes = [
            (extent + sum((w.left, w.right) * w.native) - w.dilation * (taps - 1) - 1) // w.stride
            for extent, taps, w in zip(
                image.shape[2:], weights.shape[2:], self.windows, strict=True
            )
            if isinstance(w, Window)
        ]
        shape = (image.shape[0], weights.shape[0], *(size + 1 for size in sizes))
        return torch.cudnn_convolution_add_relu(
            image,
            weights,
            added.reshape(shape),
            1.0,
            bias,
            stride,
            padding,
            dilation,
            self.groups,
        )


def in_format(tensor: torch.Tensor, layout: Format) -> torch.Tensor:
    """Return [n, channels, *spatial] with channels last or first, copied if it lies otherwise."""
    if layout != "channels_last":
        return tensor.contiguous()
    last = torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d
    return tensor.contiguous(memory_format=last)


def same_layout(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one shape lie alike; a stride along an extent of 1 says nothing."""
    pairs = zip(one.shape, one.stride(), other.stride(), strict=True)
    alike = all(mine == theirs for extent, mine, theirs in pairs if extent > 1)
    return alike and one.dtype == other.dtype


@contextmanager
def settings(precision: str) -> Iterator[None]:
    """Let cuDNN try its algorithms on a first call, and round float32 to tf32 only if allowed.

    Nothing may be tried while a CUDA graph is captured; what was found before serves there.
    """
    backend = torch.backends.cudnn
    before = backend.benchmark, backend.allow_tf32, torch.get_float32_matmul_precision()
    capturing = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    backend.benchmark, backend.allow_tf32 = not capturing, precision == "tf32"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[2])
        backend.benchmark, backend.allow_tf32 = before[0], before[1]
