"""How torch's library computes a workload best: the baseline to compare with.

One product of two operands, summed over one axis, or a convolution, and a chain of elementwise
steps on it, perhaps the softmax of the product's rows; else, where indices are plain axes, one
stage after another. Where torch has several ways to write it they are the workload's *forms*; which
is fastest only a GPU can say. Knows nothing of programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from measure.product import HALVES, Product
from measure.recognise import library_product, softmax_product
from measure.tensor import empty
from measure.whole import whole_forms
from measure.windowed import library_convolutions
from search_space.workload import Workload

#: Computes the workload from its inputs, in order, into the output given; or returns a tensor of
#: its own that lies like it, where torch has no call that writes into one.
LibraryCall = Callable[[Sequence[torch.Tensor], torch.Tensor], torch.Tensor | None]


@dataclass(frozen=True)
class Form:
    """One way to write a workload in torch: what is called, in order, and what calls it."""

    name: str
    call: LibraryCall


def library_call(workload: Workload) -> LibraryCall | None:
    """Return how torch computes ``workload`` best as a rule, or None where it has no form."""
    return next((form.call for form in library_forms(workload)), None)


def library_forms(workload: Workload) -> tuple[Form, ...]:
    """Return the ways to write ``workload`` in torch, the best as a rule first; or none.

    Not all need be right: rounding the scores of a softmax to 16 bits may cost too much.
    """
    if (product := library_product(workload)) is not None:
        return tuple(Form(form.name, form) for form in _variants(product))
    if (scores := softmax_product(workload)) is None:
        whole = (Form(form.name, form) for form in whole_forms(workload))
        return (*_convolutions(workload), *whole)
    found = [Form(f"{form.name}, softmax", _Softmax(form)) for form in _variants(scores)]
    if scores.dtype in HALVES and scores.out_dtype == scores.dtype:
        wide = replace(scores, out_dtype="float32")
        found.insert(0, Form(f"{wide.name}, softmax, to {scores.out_dtype}", _WideSoftmax(wide)))
    return tuple(found)


def _convolutions(workload: Workload) -> tuple[Form, ...]:
    """Return the ways to write a convolution, each format that operands lie in only once."""
    stored = [empty(tensor, torch.device("meta")) for tensor in workload.inputs]
    calls = [call for found in library_convolutions(workload) for call in found.variants()]
    return tuple(
        Form(call.name, call) for call in calls if not (call.format and call.as_stored(stored))
    )


def _variants(product: Product) -> list[Product]:
    """Return a product by each of the calls that torch has for it, the most fused first."""
    found = [product]
    plain = product.dtype == product.out_dtype and not product.batched
    if plain and product.b.order == (1, 0):
        found.append(replace(product, by="linear", most_fused=1))
    if plain and 1 in product.sizes:
        found.append(replace(product, by="mv", most_fused=0))
    found += [replace(product, most_fused=most) for most in range(product.fused - 1, -1, -1)]
    return list({form.name: form for form in reversed(found)}.values())[::-1]


@dataclass(frozen=True)
class _Softmax:
    """The softmax along the last dimension of what another call leaves in the output."""

    product: LibraryCall

    def __call__(self, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> None:
        self.product(inputs, output)
        torch.softmax(output, -1, out=output)


@dataclass(frozen=True)
class _WideSoftmax:
    """The softmax of float32 scores, rounded once."""

    product: LibraryCall

    def __call__(self, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> None:
        scores = torch.empty(output.shape, dtype=torch.float32, device=output.device)
        self.product(inputs, scores)
        output.copy_(torch.softmax(scores, -1, out=scores))
