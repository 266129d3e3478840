"""Products whose sides are joined by views: in Triton's interpreter, and compiled for sm_90."""

import random
from dataclasses import replace

import pytest

from autosched import te
from autosched.codegen.render import render
from measure.builder import BuilderPool
from measure.interpret import check
from measure.measurement import Evidence
from search_space.apply import replay
from search_space.describe import describe
from search_space.limits import violation
from search_space.program import DescriptorArgument
from search_space.rules.box import box_sketches
from search_space.rules.flat import flat_sketches
from search_space.sample import random_choices
from search_space.sketch import Sketch, fill
from search_space.target import Target
from search_space.workload import Workload


def pointwise(shape, c: int, o: int, *, first: bool = False, residual: bool = False) -> Workload:
    """A convolution of one tap over images of ``shape`` [n, h, w], channels last or first."""
    n, h, w = shape
    k = te.reduce_axis(c, "c")
    if first:
        x = te.placeholder((n, c, h, w), "X", "float16")
        weight = te.placeholder((o, c, 1, 1), "W", "float16")
        y = te.compute(
            (n, o, h, w),
            lambda b, f, i, j: te.sum(x[b, k, i, j] * weight[f, k, 0, 0], axis=(k,)),
            "Y",
        )
        return te.workload(y, dtype="float16")
    x = te.placeholder((n, h, w, c), "X", "float16")
    weight = te.placeholder((o, 1, 1, c), "W", "float16")
    y = te.compute(
        (n, h, w, o), lambda b, i, j, f: te.sum(x[b, i, j, k] * weight[f, 0, 0, k], axis=(k,)), "Y"
    )
    if residual:
        z = te.placeholder((n, h, w, o), "Z", "float16")
        y = te.compute((n, h, w, o), lambda b, i, j, f: te.relu(y[b, i, j, f] + z[b, i, j, f]), "R")
    return te.workload(y, dtype="float16")


def upsampled(c: int, o: int, h: int, w: int) -> Workload:
    """A transposed convolution of as many taps as its stride, 2, before rows are interleaved."""
    x = te.placeholder((1, c, h, w), "X", "float16")
    weight = te.placeholder((c, o, 2, 2), "W", "float16")
    k = te.reduce_axis(c, "c")
    y = te.compute(
        (1, o, 2, h, 2, w),
        lambda n, f, a, i, b, j: te.sum(x[n, k, i, j] * weight[k, f, a, b], axis=(k,)),
        "Y",
    )
    return te.workload(y, dtype="float16")


def found(workload: Workload, target: Target) -> tuple[Sketch, ...]:
    sketches = flat_sketches(workload, target)
    assert isinstance(sketches, tuple), sketches
    assert isinstance(box_sketches(workload, target), str)
    return sketches


CASES = {
    "last": (pointwise((2, 7, 7), 32, 40), False),
    "one image": (pointwise((1, 5, 7), 24, 16), False),
    "residual": (pointwise((2, 3, 5), 48, 24, residual=True), False),
    "shared": (pointwise((1, 4, 4), 512, 16), False),
    "first": (pointwise((2, 4, 6), 32, 24, first=True), False),
    "first, odd rows": (pointwise((2, 7, 7), 32, 24, first=True), True),
    "upsampled": (upsampled(32, 16, 4, 6), False),
}


@pytest.mark.parametrize("name", CASES)
def test_every_variant(name: str, h200) -> None:
    workload, packed = CASES[name]
    few = replace(h200, multiprocessors=3)
    apart = {"apart" in sketch.name for sketch in found(workload, few)}
    assert apart == ({False, True} if name == "upsampled" else {False})
    for sketch in found(workload, few):
        assert ("packed" in sketch.name) == (packed or "apart" in sketch.name)
        choices = random_choices(sketch, few, random.Random(sketch.name))
        assert choices is not None
        schedule = fill(sketch, choices)
        program = render(workload, schedule, few)
        outcome = check(workload, program, 0)
        assert isinstance(outcome, Evidence), f"{program.source}\n{outcome}"
        described = describe(workload, replay(workload, schedule))
        assert described is not None
        assert described.structure == sketch.structure
        assert choices.items() <= described.choices.items()


def test_rows_are_those_of_all_images(h200) -> None:
    sketch = found(pointwise((2, 7, 7), 32, 40), h200)[0]
    assert (sketch.structure.batch, sketch.structure.m) == (1, 98)
    choices = random_choices(sketch, h200, random.Random(0))
    assert choices is not None
    program = render(sketch.workload, fill(sketch, choices), h200)
    shapes = {a.buffer: a.shape for a in program.kernels[0].arguments}
    assert all(isinstance(a, DescriptorArgument) for a in program.kernels[0].arguments)
    assert shapes == {"X": (98, 32), "W": (40, 32), "Y": (98, 40)}


def test_windows_are_not_flat(h200) -> None:
    x = te.placeholder((2, 9, 32), "X", "float16")
    w = te.placeholder((16, 3, 32), "W", "float16")
    r, c = te.reduce_axis(3, "r"), te.reduce_axis(32, "c")
    y = te.compute(
        (2, 7, 16), lambda n, i, o: te.sum(x[n, i + r, c] * w[o, r, c], axis=(r, c)), "Y"
    )
    answer = flat_sketches(te.workload(y, dtype="float16"), h200)
    assert answer == "an index of 'X' is not one axis alone"


@pytest.mark.parametrize(
    "workload",
    [
        pointwise((16, 14, 14), 256, 512),
        pointwise((16, 28, 28), 256, 128, first=True),
        upsampled(512, 256, 28, 28),
    ],
    ids=["last", "first", "upsampled"],
)
def test_operands_go_from_shared_memory_to_wgmma(workload: Workload, h200) -> None:
    wish = {"tile_m": 128, "tile_n": 128, "tile_k": 64, "stages": 4, "warps": 8}
    sketch = found(workload, h200)[0]
    choices = {c.name: wish.get(c.name, c.domain[0]) for c in sketch.choices}
    assert violation(sketch, choices, h200) is None
    program = render(workload, fill(sketch, choices), h200)
    with BuilderPool(workers=1, timeout_s=120) as pool:
        ptx = pool.text(program, h200.triton_target)["kernel"]["ptx"]
    assert ptx.count("wgmma.mma_async") == 4
    loop = ptx[ptx.index("mbarrier.try_wait") :]
    assert "ld.shared.b" not in loop[: loop.index("wgmma.wait_group")]
