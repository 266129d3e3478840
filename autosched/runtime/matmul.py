"""A call of matmul as a workload and the tensors it takes, as stored. Knows no kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch

from autosched.runtime.errors import BadInput, WrongDtype, WrongShape
from autosched.runtime.tensor import (
    check_rank,
    dtype_name,
    is_column_major,
    runs_down_columns,
)
from autosched.te import IllegalExpression
from autosched.te.epilogue import ELEMENTWISE
from autosched.te.operand import OPERAND_DTYPES
from autosched.te.operators import batch_matmul, matmul
from measure.tensor import TORCH_DTYPES
from search_space.dtype import DTYPES
from search_space.workload import PRECISIONS, Precision, Workload

ACTIVATIONS = tuple(ELEMENTWISE)


@dataclass(frozen=True, slots=True)
class Signature:
    """What of a call decides its workload. ``trans_*`` describe the operands as stored."""

    batch: int | None
    m: int
    n: int
    k: int
    dtype: str
    out_dtype: str | None
    trans_a: bool
    trans_b: bool
    precision: Precision
    epilogue: tuple[str, ...]
    constant: tuple[str, ...] = ()

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return (self.m, self.n) if self.batch is None else (self.batch, self.m, self.n)


@lru_cache(maxsize=4096)
def workload_of(signature: Signature) -> Workload:
    """Return the workload of a call, built once per signature; raises BadInput if there is none."""
    s = signature
    how: dict[str, Any] = {
        "dtype": s.dtype,
        "out_dtype": s.out_dtype,
        "trans_a": s.trans_a,
        "trans_b": s.trans_b,
        "precision": s.precision,
        "epilogue": s.epilogue,
        "constant": s.constant,
    }
    try:
        if s.batch is None:
            return matmul(s.m, s.n, s.k, **how)
        return batch_matmul(s.batch, s.m, s.n, s.k, **how)
    except IllegalExpression as error:
        raise BadInput(str(error)) from error


def stored(tensor: torch.Tensor, trans: bool) -> tuple[torch.Tensor, bool]:
    """Return the operand as it lies in memory, and whether that is transposed.

    A transposed view of contiguous memory is its own transpose stored row by row: no copy.
    """
    if is_column_major(tensor):
        return tensor.transpose(-1, -2), not trans
    return tensor, trans


def other_readings(
    signature: Signature, a: torch.Tensor, b: torch.Tensor
) -> Iterator[tuple[Signature, torch.Tensor, torch.Tensor]]:
    """Yield the other ways to see the operands of a call as stored.

    There are some where an operand's columns lie in one piece each with gaps between them, as in
    a transposed view of padded rows.
    """
    turn_a, turn_b = runs_down_columns(a), runs_down_columns(b)
    if turn_a and turn_b:
        yield _turned(signature, a, b, "ab")
    if turn_a:
        yield _turned(signature, a, b, "a")
    if turn_b:
        yield _turned(signature, a, b, "b")


def _turned(
    signature: Signature, a: torch.Tensor, b: torch.Tensor, which: str
) -> tuple[Signature, torch.Tensor, torch.Tensor]:
    """Return a call with some operands seen as the transposes of what is stored."""
    if "a" in which:
        signature, a = replace(signature, trans_a=not signature.trans_a), a.transpose(-1, -2)
    if "b" in which:
        signature, b = replace(signature, trans_b=not signature.trans_b), b.transpose(-1, -2)
    return signature, a, b


def signature_of(
    a: torch.Tensor,
    b: torch.Tensor,
    trans_a: bool,
    trans_b: bool,
    extras: Mapping[str, torch.Tensor],
    activation: str | None,
    out_dtype: torch.dtype | str | None,
    precision: str | None,
    constant: Sequence[str] = (),
) -> Signature:
    """Return the signature of a call on operands as stored; raises BadInput saying what is off."""
    rank = 3 if a.dim() == 3 else 2
    check_rank("a", a, rank)
    check_rank("b", b, rank)
    dtype = dtype_name("a", a.dtype, OPERAND_DTYPES)
    if b.dtype != a.dtype:
        raise WrongDtype(f"b is {b.dtype}, but a is {a.dtype}: cast one of them")
    m, k = (a.shape[-1], a.shape[-2]) if trans_a else (a.shape[-2], a.shape[-1])
    n, depth = (b.shape[-2], b.shape[-1]) if trans_b else (b.shape[-1], b.shape[-2])
    if k != depth:
        raise WrongShape(
            f"a has k={k} and b has k={depth}: a {tuple(a.shape)} (trans_a={trans_a}) and "
            f"b {tuple(b.shape)} (trans_b={trans_b}), as stored, do not multiply"
        )
    if rank == 3 and a.shape[0] != b.shape[0]:
        raise WrongShape(f"a holds {a.shape[0]} matrices and b {b.shape[0]}: they must agree")
    return Signature(
        batch=a.shape[0] if rank == 3 else None,
        m=m,
        n=n,
        k=k,
        dtype=dtype,
        out_dtype=None if out_dtype is None else dtype_name("out_dtype", out_dtype, tuple(DTYPES)),
        trans_a=trans_a,
        trans_b=trans_b,
        precision=_precision(precision),
        epilogue=(*extras, *_activation(activation)),
        constant=_constants(constant, ("a", "b", *extras)),
    )


def empty_result(
    signature: Signature, out: torch.Tensor | None, device: torch.device
) -> torch.Tensor:
    """Return the result of a product without elements: ``out`` if it fits, else a fresh one."""
    # Extents of 1 stand in: what dtype the result has does not depend on them.
    made = workload_of(replace(signature, batch=signature.batch and 1, m=1, n=1, k=1))
    empty = torch.empty(
        signature.output_shape, dtype=TORCH_DTYPES[made.output.dtype], device=device
    )
    if out is None:
        return empty
    if out.shape != empty.shape or out.dtype != empty.dtype:
        raise WrongShape(
            f"out is {tuple(out.shape)} {out.dtype}; it must be {tuple(empty.shape)} {empty.dtype}"
        )
    return out


def one_deep(
    signature: Signature, a: torch.Tensor, b: torch.Tensor
) -> tuple[Signature, torch.Tensor, torch.Tensor]:
    """Turn a product over k=0, which is all zeros, into one over a single zero."""
    s = signature
    batch = () if s.batch is None else (s.batch,)
    left = (1, s.m) if s.trans_a else (s.m, 1)
    right = (s.n, 1) if s.trans_b else (1, s.n)
    return replace(s, k=1), a.new_zeros((*batch, *left)), b.new_zeros((*batch, *right))


def _precision(name: str | None) -> Precision:
    for known in PRECISIONS:
        if name in (None, known):
            return known
    raise BadInput(f"precision={name!r} is not known; known: {', '.join(PRECISIONS)}")


def _constants(names: Sequence[str], known: tuple[str, ...]) -> tuple[str, ...]:
    given = (names,) if isinstance(names, str) else names
    for name in given:
        if name not in known:
            raise BadInput(f"constant: {name!r} is no input here; there are {', '.join(known)}")
    return tuple(name for name in known if name in given)


def _activation(name: str | None) -> tuple[str, ...]:
    if name is None:
        return ()
    if name not in ACTIVATIONS:
        raise BadInput(f"activation={name!r} is not known; known: {', '.join(ACTIVATIONS)}")
    return (name,)
