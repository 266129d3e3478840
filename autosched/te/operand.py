"""Arguments that all named operators take alike: dtypes of operands and of the output, and inputs
that are constant. Knows no operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.te import declared
from autosched.te.error import IllegalExpression
from search_space.dtype import DTYPES
from search_space.workload import Workload

#: What can be multiplied.
OPERAND_DTYPES = ("float16", "bfloat16", "float32", "float8_e4m3", "int8")


def check_dtypes(dtype: str, stored: str) -> None:
    """Raise IllegalExpression unless operands of ``dtype`` can be multiplied, and the output be
    stored in ``stored``; its ``path`` is the argument."""
    if dtype not in OPERAND_DTYPES:
        raise IllegalExpression(
            f"{str(dtype)[:40]!r} is no dtype of operands; known: {', '.join(OPERAND_DTYPES)}",
            ("dtype",),
        )
    if stored not in DTYPES:
        raise IllegalExpression(
            f"{str(stored)[:40]!r} is unknown; known: {', '.join(DTYPES)}", ("out_dtype",)
        )


def with_constants(built: Workload, operands: Mapping[str, str], names: Sequence[str]) -> Workload:
    """Return ``built`` with inputs declared constant; ``operands`` says what arguments call them.

    Raises IllegalExpression, its ``path`` the place in ``constant``.
    """
    try:
        tensors = [operands.get(name, name) for name in names]
        return declared.with_constants(built, tensors) if names else built
    except IllegalExpression as error:
        raise IllegalExpression(error.fact, ("constant", *error.path)) from error
