"""Hand-written kernels and programs for tests of measuring."""

from __future__ import annotations

from dataclasses import replace

from search_space.expr import Affine, Call, Read
from search_space.program import (
    Argument,
    Buffer,
    DescriptorArgument,
    Kernel,
    PointerArgument,
    Program,
)
from search_space.workload import Axis, Stage, Tensor, Workload, contiguous_strides

HEAD = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"

MATMUL = """\
def kernel(a, b, c):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, EK, BK):
        x = tl.load(a + rm[:, None] * SK + (k + rk)[None, :],
                    mask=(rm[:, None] < SM) & ((k + rk)[None, :] < SK), other=0.0)
        y = tl.load(b + (k + rk)[:, None] * SN + rn[None, :],
                    mask=((k + rk)[:, None] < SK) & (rn[None, :] < SN), other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
    tl.store(c + rm[:, None] * SN + rn[None, :], acc.to(OUT),
             mask=(rm[:, None] < SM) & (rn[None, :] < SN))
"""

DESCRIPTOR = """\
def kernel(a, b, c):
    row = tl.program_id(0) * BM
    column = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, EK, BK):
        acc = tl.dot(a.load([row, k]), b.load([k, column]), acc)
    c.store([row, column], acc.to(OUT))
"""


def fill(text: str, **values: object) -> str:
    """Replace upper-case words of ``text``."""
    for name, value in values.items():
        text = text.replace(name, str(value))
    return HEAD + text


def workload(m: int, n: int, k: int, dtype: str = "float16", out_dtype: str = "") -> Workload:
    """A matmul of row-major operands with a float32 accumulator."""
    i, j, r = Affine.axis("i"), Affine.axis("j"), Affine.axis("k")
    product = Call("mul", (Read("A", (i, r)), Read("B", (r, j))))
    return Workload(
        (Axis("i", m, "spatial"), Axis("j", n, "spatial"), Axis("k", k, "reduction")),
        (Tensor("A", (m, k), dtype), Tensor("B", (k, n), dtype)),
        (Tensor("acc", (m, n), "float32"),),
        Tensor("C", (m, n), out_dtype or dtype),
        (Stage("acc", (i, j), product, "sum"), Stage("C", (i, j), Read("acc", (i, j)))),
        label=f"matmul {m}x{n}x{k}",
    )


def buffers(w: Workload) -> tuple[Buffer, ...]:
    """The buffers of a workload without workspaces."""
    inputs = [Buffer(t.name, t.shape, t.strides, t.dtype, "input") for t in w.inputs]
    out = w.output
    return (*inputs, Buffer(out.name, out.shape, out.strides, out.dtype, "output"))


def program(w: Workload, *kernels: Kernel) -> Program:
    """A program over the buffers of ``w``."""
    return Program(buffers(w), kernels, 1, w.key)


def pointer_matmul(
    w: Workload, tile: tuple[int, int, int] = (32, 32, 32), *, text: str = MATMUL, **words: object
) -> Program:
    """The program of one pointer kernel; ``text`` and ``words`` plant what a test wants wrong."""
    (m, k), (_, n) = w.inputs[0].shape, w.inputs[1].shape
    bm, bn, bk = tile
    values = {"BM": bm, "BN": bn, "BK": bk, "EK": k, "SM": m, "SN": n, "SK": k}
    values["OUT"] = f"tl.{w.output.dtype}"
    source = fill(text, **{**values, **words})
    arguments: tuple[Argument, ...] = tuple(PointerArgument(name) for name in "ABC")
    grid = (-(-m // bm), -(-n // bn), 1)
    return program(w, Kernel("kernel", source, arguments, grid, 4, 3))


def descriptor_matmul(w: Workload, tile: tuple[int, int, int] = (64, 64, 64)) -> Program:
    """The program of one kernel whose every argument is a descriptor."""
    (m, k), (_, n) = w.inputs[0].shape, w.inputs[1].shape
    bm, bn, bk = tile
    source = fill(DESCRIPTOR, BM=bm, BN=bn, BK=bk, EK=k, OUT=f"tl.{w.output.dtype}")
    blocks = {"A": (bm, bk), "B": (bk, bn), "C": (bm, bn)}
    shapes = {"A": (m, k), "B": (k, n), "C": (m, n)}
    arguments = tuple(
        DescriptorArgument(name, shapes[name], contiguous_strides(shapes[name]), blocks[name])
        for name in "ABC"
    )
    return program(w, Kernel("kernel", source, arguments, (-(-m // bm), -(-n // bn), 1), 4, 3))


def with_source(base: Program, source: str) -> Program:
    """The same program with the text of its one kernel replaced."""
    return replace(base, kernels=(replace(base.kernels[0], source=source),))
