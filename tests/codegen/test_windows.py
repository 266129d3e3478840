"""Products through windows, run in Triton's interpreter against the reference of the workload."""

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import te
from autosched.codegen.render import render
from autosched.spec.loader import from_data
from measure.interpret import check
from measure.measurement import Evidence
from search_space.program import Program
from search_space.rules import sketches
from search_space.sample import random_choices
from search_space.sketch import Sketch, fill
from search_space.workload import Workload


@dataclass(frozen=True)
class Convolution:
    """A convolution of two dimensions by its numbers, channels last or first."""

    n: int = 1
    h: int = 8
    w: int = 8
    c: int = 16
    o: int = 16
    kernel: tuple[int, int] = (3, 3)
    stride: int = 1
    padding: int = 1
    dilation: int = 1
    first: bool = False

    def workload(self, dtype: str = "float16") -> Workload:
        kh, kw = self.kernel
        r, q, c = (te.reduce_axis(e, n) for e, n in ((kh, "r"), (kw, "q"), (self.c, "c")))
        oy, ox = (self._out(e, k) for e, k in ((self.h, kh), (self.w, kw)))
        s, d, p = self.stride, self.dilation, self.padding
        if self.first:
            x = te.placeholder((self.n, self.c, self.h, self.w), "X", dtype)
            w = te.placeholder((self.o, self.c, kh, kw), "W", dtype)
            y = te.compute(
                (self.n, self.o, oy, ox),
                lambda b, f, i, j: te.sum(
                    x[b, c, i * s + r * d - p, j * s + q * d - p] * w[f, c, r, q], axis=(c, r, q)
                ),
                "Y",
            )
        else:
            x = te.placeholder((self.n, self.h, self.w, self.c), "X", dtype)
            w = te.placeholder((self.o, kh, kw, self.c), "W", dtype)
            y = te.compute(
                (self.n, oy, ox, self.o),
                lambda b, i, j, f: te.sum(
                    x[b, i * s + r * d - p, j * s + q * d - p, c] * w[f, r, q, c], axis=(r, q, c)
                ),
                "Y",
            )
        return te.workload(y, dtype=dtype)

    def _out(self, extent: int, kernel: int) -> int:
        return (extent + 2 * self.padding - self.dilation * (kernel - 1) - 1) // self.stride + 1


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    made = Convolution(
        n=draw(st.integers(1, 3)),
        h=draw(st.integers(1, 11)),
        w=draw(st.integers(1, 11)),
        c=draw(st.sampled_from([1, 3, 16, 24, 33])),
        o=draw(st.sampled_from([1, 8, 17, 32])),
        kernel=(draw(st.integers(1, 4)), draw(st.integers(1, 4))),
        stride=draw(st.integers(1, 3)),
        padding=draw(st.integers(0, 5)),
        dilation=draw(st.integers(1, 3)),
        first=draw(st.booleans()),
    )
    reach = 2 * made.padding - made.dilation * (max(made.kernel) - 1)
    shortest = max(1, 1 - reach)
    return Convolution(**{**made.__dict__, "h": made.h + shortest, "w": made.w + shortest})


def gathers(workload: Workload, target) -> list[Sketch]:
    return [s for s in sketches(workload, target) if s.name.startswith("gather")]


def assert_right(workload: Workload, program: Program) -> None:
    outcome = check(workload, program, 0)
    assert isinstance(outcome, Evidence), f"{workload.canonical}\n{program.source}\n{outcome}"


@settings(max_examples=12, deadline=None)
@given(convolutions(), st.randoms(use_true_random=False), st.sampled_from(["float16", "float32"]))
def test_gathers_of_any_window(h200, made: Convolution, rng: random.Random, dtype: str) -> None:
    workload = made.workload(dtype)
    found = gathers(workload, h200)
    assert found
    sketch = rng.choice(found)
    choices = random_choices(sketch, h200, rng)
    assert choices is not None
    assert_right(workload, render(workload, fill(sketch, choices), h200))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("c", [3, 40])
def test_every_gather(h200, first: bool, c: int) -> None:
    workload = Convolution(1, 5, 7, c, 24, first=first, stride=2).workload()
    names = set()
    for sketch in gathers(workload, h200):
        choices = random_choices(sketch, h200, random.Random(sketch.name))
        assert choices is not None
        assert_right(workload, render(workload, fill(sketch, choices), h200))
        names.add(sketch.name)
    across = {n for n in names if n.startswith("gather.across")}
    assert bool(across) == (c == 3 or first)
    assert bool(names - across) == (c == 40)
    assert any(n.startswith("gather.pointer.packed.both") for n in names) == (first and c == 40)


def test_long_sums_are_shared(h200) -> None:
    workload = Convolution(1, 3, 3, 64, 16).workload()
    shared = [s for s in gathers(workload, h200) if s.structure.split != "none"]
    assert {s.structure.split for s in shared} == {"workspace", "atomic", "counter"}
    for sketch in shared:
        choices = random_choices(sketch, h200, random.Random(2))
        assert choices is not None
        assert_right(workload, render(workload, fill(sketch, choices), h200))


def test_groups_go_to_the_grid(h200) -> None:
    x = te.placeholder((2, 6, 5, 3, 16), "X", "float16")
    w = te.placeholder((3, 8, 3, 3, 16), "W", "float16")
    r, q, c = te.reduce_axis(3, "r"), te.reduce_axis(3, "q"), te.reduce_axis(16, "c")
    y = te.compute(
        (2, 6, 5, 3, 8),
        lambda n, i, j, g, o: te.sum(
            x[n, i + r - 1, j + q - 1, g, c] * w[g, o, r, q, c], axis=(r, q, c)
        ),
        "Y",
    )
    workload = te.workload(y, dtype="float16")
    for sketch in gathers(workload, h200):
        assert sketch.structure.batch == 3
        choices = random_choices(sketch, h200, random.Random(4))
        assert choices is not None
        assert_right(workload, render(workload, fill(sketch, choices), h200))


def test_a_toeplitz_product(h200) -> None:
    t = te.placeholder((99,), "T", "float16")
    x = te.placeholder((50, 24), "X", "float16")
    k = te.reduce_axis(50, "k")
    y = te.compute((50, 24), lambda i, j: te.sum(t[i - k + 49] * x[k, j], axis=k), "Y")
    workload = te.workload(y, dtype="float16")
    for sketch in gathers(workload, h200):
        choices = random_choices(sketch, h200, random.Random(4))
        assert choices is not None
        assert_right(workload, render(workload, fill(sketch, choices), h200))


def test_taps_and_overlap_are_part_of_the_structure(h200) -> None:
    made = Convolution(2, 9, 7, 40, 24)
    sketch = next(s for s in gathers(made.workload(), h200) if s.name == "gather.pointer")
    assert (sketch.structure.m, sketch.structure.n, sketch.structure.k) == (126, 24, 360)
    assert sketch.structure.taps == 9
    assert sketch.structure.a_elements == 2 * 9 * 7 * 40
    assert sketch.structure.masked
    unpadded = Convolution(2, 9, 7, 40, 24, padding=0).workload()
    assert not any(s.structure.masked for s in gathers(unpadded, h200))


@pytest.mark.parametrize(
    "fields",
    [
        {"op": "conv_transpose2d", "kh": 4, "kw": 4, "pad": 1, "layout": "NHWC"},
        {"op": "conv_transpose2d", "kh": 2, "kw": 2, "layout": "NCHW"},
        {"op": "conv_transpose2d", "kh": 3, "kw": 2, "pad": 1, "output_pad": 1, "layout": "NHWC"},
        {"op": "conv_transpose2d", "kh": 3, "kw": 3, "pad": 1, "dilation": 2, "layout": "NCHW"},
    ],
    ids=lambda fields: f"{fields['layout']}-{fields['kh']}x{fields['kw']}",
)
def test_transposed_convolutions_are_products_by_class(h200, fields) -> None:
    spec = {"n": 1, "h": 5, "w": 4, "ci": 32, "co": 16, "stride": 2, "dtype": "float16"}
    workload = from_data("row", {**spec, **fields, "epilogue": ["bias", "relu"]}).workload
    found = gathers(workload, h200)
    assert found
    for sketch in found:
        choices = random_choices(sketch, h200, random.Random(sketch.name))
        assert choices is not None
        program = render(workload, fill(sketch, choices), h200)
        assert (workload.elsewhere is not None) == any("fill" in k.name for k in program.kernels)
        assert_right(workload, program)
