"""Shifted boxes: run in Triton's interpreter against the reference, and compiled for sm_90."""

import random
import re
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import te
from autosched.codegen.render import render
from measure.builder import BuilderPool
from measure.interpret import check
from measure.job import Built
from measure.measurement import Evidence
from search_space.apply import replay
from search_space.case import case_of, registers_estimate, shared_bytes
from search_space.describe import describe
from search_space.limits import violation
from search_space.program import DescriptorArgument, Program
from search_space.rules.box import box_sketches
from search_space.sample import random_choices
from search_space.schedule import Schedule
from search_space.sketch import Sketch, fill
from search_space.target import Target
from search_space.workload import Workload


@dataclass(frozen=True)
class Convolution:
    """A convolution of one to three dimensions, channels last or first, or in groups."""

    spatial: tuple[int, ...]
    n: int = 1
    c: int = 32
    o: int = 24
    kernel: int = 3
    stride: int = 1
    padding: int = 1
    dilation: int = 1
    first: bool = False
    groups: int = 0

    def workload(self, dtype: str = "float16", precision: str = "ieee") -> Workload:
        taps = [te.reduce_axis(self.kernel, f"r{n}") for n in range(len(self.spatial))]
        c, group = te.reduce_axis(self.c, "c"), (self.groups,) if self.groups else ()
        kernels = (self.kernel,) * len(taps)
        x_shape = (self.n, *self.spatial, *group, self.c)
        w_shape = (*group, self.o, *kernels, self.c)
        shape = (self.n, *map(self.extent, self.spatial), *group, self.o)
        if self.first:
            x_shape = (self.n, self.c, *self.spatial)
            w_shape = (self.o, self.c, *kernels)
            shape = (self.n, self.o, *map(self.extent, self.spatial))
        x, w = te.placeholder(x_shape, "X", dtype), te.placeholder(w_shape, "W", dtype)

        def value(image, *rest):
            pixel = rest[1:] if self.first else rest[: len(taps)]
            *at, o = [rest[0]] if self.first else rest[len(taps) :]
            moved = [self.position(p, r) for p, r in zip(pixel, taps, strict=True)]
            left = x[(image, c, *moved)] if self.first else x[(image, *moved, *at, c)]
            right = w[(o, c, *taps)] if self.first else w[(*at, o, *taps, c)]
            return te.sum(left * right, axis=(*taps, c))

        return te.workload(te.compute(shape, value, "Y"), dtype=dtype, precision=precision)

    def position(self, pixel, tap):
        return pixel * self.stride + tap * self.dilation - self.padding

    def extent(self, extent: int) -> int:
        reach = self.dilation * (self.kernel - 1) + 1
        return (extent + 2 * self.padding - reach) // self.stride + 1


def found(workload: Workload, target: Target) -> tuple[Sketch, ...]:
    sketches = box_sketches(workload, target)
    assert isinstance(sketches, tuple), sketches
    return sketches


def drawn(sketch: Sketch, target: Target, rng: random.Random) -> Schedule:
    choices = random_choices(sketch, target, rng)
    assert choices is not None
    return fill(sketch, choices)


def assert_right(workload: Workload, program: Program) -> None:
    outcome = check(workload, program, 0)
    assert isinstance(outcome, Evidence), f"{workload.canonical}\n{program.source}\n{outcome}"


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    stride, dimensions = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    kernel, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    padding = draw(st.integers(0, 5))
    shortest = max(1, dilation * (kernel - 1) + 1 - 2 * padding)
    extents = [shortest + draw(st.integers(0, 6)) for _ in range(dimensions)]
    return Convolution(
        tuple(e + e % stride for e in extents),
        n=draw(st.integers(1, 2)),
        c=draw(st.sampled_from([16, 24, 64][:: 1 + (stride == 2)])),
        o=draw(st.sampled_from([8, 17, 40])),
        kernel=kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        first=draw(st.booleans()),
    )


@settings(max_examples=6, deadline=None)
@given(convolutions(), st.integers(0, 99))
def test_boxes_of_any_window(h200, made: Convolution, seed: int) -> None:
    few, workload = replace(h200, multiprocessors=3), made.workload()
    rng = random.Random(seed)
    answer = box_sketches(workload, few)
    if isinstance(answer, str):
        assert "no operand is read through windows" in answer
        assert made.kernel == 1 or max(map(made.extent, made.spatial)) == 1
        return
    sketch = rng.choice(answer)
    assert_right(workload, render(workload, drawn(sketch, few, rng), few))


@pytest.mark.parametrize(
    "made",
    [
        Convolution((7, 7), n=2),
        Convolution((3, 4), c=256, o=16),
        Convolution((8, 10), stride=2),
        Convolution((2, 4, 3), kernel=2),
        Convolution((5, 6), groups=3),
        Convolution((7, 7), c=20, first=True),
    ],
    ids=str,
)
def test_every_variant(made: Convolution, h200) -> None:
    few, workload = replace(h200, multiprocessors=3), made.workload()
    names = set()
    for sketch in found(workload, few):
        schedule = drawn(sketch, few, random.Random(sketch.name))
        assert Schedule.from_json(schedule.to_json()) == schedule
        assert_right(workload, render(workload, schedule, few))
        names.add(sketch.name)
        described = describe(workload, replay(workload, schedule))
        assert described is not None
        assert described.structure == sketch.structure
        assert schedule.choices.items() <= described.choices.items()
    assert any("persistent" in name for name in names)
    assert any("split" in name for name in names) == (made.c == 256)
    assert any("direct" not in name for name in names) == (not made.first)
    assert all("packed" in name for name in names) == made.first


@pytest.mark.parametrize(("dtype", "precision"), [("float16", "ieee"), ("float32", "tf32")])
def test_a_transposed_convolution_reads_backwards_along_its_taps(
    dtype: str, precision: str, h200
) -> None:
    """Stride 2, kernel 4, padding 1: two classes of pixels, two taps each."""
    x = te.placeholder((2, 7, 32), "X", dtype)
    w = te.placeholder((32, 4, 16), "W", dtype)
    t, c = te.reduce_axis(2, "t"), te.reduce_axis(32, "c")
    y = te.compute(
        (2, 6, 2, 16),
        lambda n, q, u, o: te.sum(x[n, q - t + 1, c] * w[c, t * 2 + u, o], axis=(t, c)),
        "Y",
    )
    workload = te.workload(y, dtype=dtype, precision=precision)
    names = {sketch.name for sketch in found(workload, h200)}
    assert any("registers" in name for name in names) == (precision == "tf32")
    for sketch in found(workload, h200):
        middle = {c.name: c.domain[len(c.domain) // 2] for c in sketch.choices}
        schedule = fill(sketch, middle)
        assert_right(workload, render(workload, schedule, h200))
        described = describe(workload, replay(workload, schedule))
        assert described is not None
        assert described.structure == sketch.structure


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (Convolution((9, 9), stride=2), "no variant is legal"),
        (Convolution((9, 9), c=3), "has an extent of 3"),
        (Convolution((4, 4, 4, 4)), "at most 4 axes"),
    ],
    ids=str,
)
def test_what_no_box_covers(made: Convolution, reason: str, h200) -> None:
    answer = box_sketches(made.workload(), h200)
    assert isinstance(answer, str)
    assert reason in answer


def test_a_step_of_two_that_no_tap_moves_needs_no_even_extents(h200) -> None:
    workload = Convolution((7, 9), kernel=1, stride=2, padding=0).workload()
    sketch = found(workload, h200)[0]
    program = render(workload, drawn(sketch, h200, random.Random(0)), h200)
    argument = next(a for a in program.kernels[0].arguments if a.buffer == "X")
    assert isinstance(argument, DescriptorArgument)
    assert (argument.shape, argument.strides) == ((1, 4, 5, 32), (2016, 576, 64, 1))
    assert_right(workload, program)


@pytest.fixture(scope="module")
def pool():
    with BuilderPool(workers=2, timeout_s=120) as pool:
        yield pool


WISH = {"tile_i": 2, "tile_y": 8, "tile_x": 8, "tile_m": 64, "tile_n": 64, "tile_k": 64}
REST = {"stages": 4, "warps": 4, "group": 1, "split": 2, "ctas": 1}
COMPILED = {
    "half images": (Convolution((7, 7), n=32, c=512, o=512), ""),
    "in steps of 2": (Convolution((56, 56), n=32, c=128, o=128, stride=2), "persistent"),
    "shared": (Convolution((14, 14), c=1024, o=256), "split.counter"),
    "channels first": (Convolution((56, 56), c=256, o=512, dilation=2, first=True), ""),
}


@pytest.mark.parametrize("name", COMPILED)
def test_boxes_stay_in_shared_memory_on_sm_90(name: str, pool, h200) -> None:
    made, ending = COMPILED[name]
    workload = made.workload()
    sketch = next(s for s in found(workload, h200) if s.name.endswith(ending))
    wish = {**WISH, **REST}
    choices = {c.name: max(v for v in c.domain if v <= wish[c.name]) for c in sketch.choices}
    assert violation(sketch, choices, h200) is None
    program = render(workload, fill(sketch, choices), h200)
    kernel = next(k for k in program.kernels if "wgmma" in k.promises)
    assert "tma" in kernel.promises
    texts = pool.text(program, h200.triton_target)[kernel.name]
    ptx = texts["ptx"]
    assert len(re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n(?:64|128)k16", ptx)) == 4
    assert "cp.async.bulk.tensor" in ptx
    loop = ptx[ptx.index("mbarrier.try_wait") :]
    loop = loop[: loop.index("wgmma.wait_group")]
    assert "ld.shared.b" not in loop, "an operand passes through registers"
    assert "wgmma.wait_group.sync.aligned 1" in ptx, "the dots of neighbouring turns do not overlap"
    case = case_of(sketch, choices, h200)
    built = pool.build(program, h200.triton_target)
    assert isinstance(built, Built)
    assert built.facts.stack_bytes == 0
    assert abs(built.facts.shared_bytes - shared_bytes(case)) <= 2048
    assert abs(built.facts.registers - registers_estimate(case)) <= 8
