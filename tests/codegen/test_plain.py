"""Kernels without a dot: windows tap by tap, reductions, elementwise expressions."""

import random
import re

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from autosched import te
from autosched.codegen.render import render
from autosched.te import text
from autosched.te.convolution import workload_of
from autosched.te.geometry import Convolution
from measure.builder import BuilderPool
from measure.interpret import check
from measure.measurement import Evidence
from search_space.apply import IllegalStep
from search_space.case import case_of
from search_space.limits import violation
from search_space.rules import sketches
from search_space.schedule import Schedule
from search_space.sketch import fill
from search_space.steps import (
    Bind,
    CacheWrite,
    Fuse,
    Order,
    ReduceLate,
    Split,
    SplitReduction,
    Tile,
    Unroll,
    Warps,
)


@pytest.fixture(scope="module")
def pool():
    with BuilderPool(workers=1, timeout_s=120) as pool:
        yield pool


def parse(expression: str, sizes: dict[str, int], epilogue: str | None = None, **inputs):
    """``inputs`` are shapes, or shapes and dtypes."""
    stored = {}
    for name, how in inputs.items():
        *shape, dtype = how if isinstance(how[-1], str) else (*how, "float32")
        stored[name] = text.Stored(tuple(shape), dtype)
    return text.parse(expression, sizes, stored, epilogue)


def depthwise(n, image, channels, taps, stride, pad, dilation, layout, dtype, many=1):
    """Each channel by itself, ``many`` outputs of each."""
    (h, w), (kh, kw) = image, taps
    height, width = (
        (x + 2 * pad - dilation * (k - 1) - 1) // stride + 1
        for x, k in zip(image, taps, strict=True)
    )
    y, x = (f"{a}*{stride} + {t}*{dilation} - {pad}" for a, t in ("yr", "xs"))
    out, weights = ("g,m", "g,m,r,s") if many > 1 else ("g", "g,r,s")
    sizes = {"n": n, "y": height, "x": width, "g": channels, "r": kh, "s": kw}
    sizes |= {"m": many} if many > 1 else {}
    w_shape = (channels, many, kh, kw) if many > 1 else (channels, kh, kw)
    if layout == "last":
        expression = f"Y[n,y,x,{out}] += X[n,{y},{x},g] * W[{weights}]"
        return parse(expression, sizes, X=(n, h, w, channels, dtype), W=(*w_shape, dtype))
    expression = f"Y[n,{out},y,x] += X[n,g,{y},{x}] * W[{weights}]"
    return parse(expression, sizes, X=(n, channels, h, w, dtype), W=(*w_shape, dtype))


def legal(workload, target, rng, most=1 << 13):
    """Yield one legal schedule of each sketch without a dot that has one of small blocks, and few
    enough statements for the interpreter."""
    for sketch in sketches(workload, target):
        for _ in range(100 if not sketch.structure.dot else 0):
            choices = {c.name: rng.choice(c.domain) for c in sketch.choices}
            points = choices.get("tile_m", 1) * choices.get("tile_n", 1) * choices.get("tile_k", 1)
            case = case_of(sketch, choices, target)
            work = case.tiles * case.split * case.iterations * sketch.structure.steps
            short = points <= most and work <= 1000
            if short and violation(sketch, choices, target) is None:
                yield fill(sketch, choices)
                break


def assert_right(workload, schedule, target) -> None:
    outcome = check(workload, render(workload, schedule, target), 0)
    assert isinstance(outcome, Evidence), f"{schedule.sketch} {schedule.choices}: {outcome}"
    assert outcome.max_error <= 1.0


@settings(max_examples=8)
@given(data=st.data())
def test_windows_of_any_kind(h200, data: st.DataObject) -> None:
    draw = data.draw
    pick = st.sampled_from
    taps = draw(st.tuples(pick((1, 2, 3)), pick((1, 3, 5))))
    pad, dilation = draw(pick((0, 1, 4))), draw(pick((1, 2)))
    least = max(dilation * (t - 1) + 1 - 2 * pad for t in taps)
    image = draw(st.tuples(*[st.integers(max(1, least), max(1, least) + 9)] * 2))
    n, channels, stride, many = (draw(pick(x)) for x in ((1, 2), (1, 3, 8), (1, 2, 4), (1, 1, 3)))
    layout, dtype = draw(pick(("first", "last"))), draw(pick(("float32", "float16")))
    try:
        workload = depthwise(n, image, channels, taps, stride, pad, dilation, layout, dtype, many)
    except te.IllegalExpression:
        # Padding alone is read.
        reject()
    found = list(legal(workload, h200, random.Random(draw(st.integers(0, 99)))))
    assert any(schedule.sketch.startswith("direct") for schedule in found)
    for schedule in draw(st.permutations(found))[:2]:
        assert_right(workload, schedule, h200)


def test_patches_that_leave_a_short_image(h200) -> None:
    """One row of input and three of output: tests of positions that are numbers, 0 among them."""
    workload = depthwise(1, (1, 5), 1, (1, 1), 1, 1, 1, "last", "float32")
    for sketch in sketches(workload, h200):
        schedule = fill(sketch, {choice.name: choice.domain[0] for choice in sketch.choices})
        assert_right(workload, schedule, h200)


WORKLOADS = {
    "few channels": parse(
        "Y[n,o,y,x] += X[n,c,y*2+r-1,x*2+s] * W[o,c,r,s]",
        {"n": 1, "o": 5, "y": 3, "x": 6, "c": 2, "r": 3, "s": 2},
        "relu(Y[n,o,y,x])",
        X=(1, 2, 5, 12),
        W=(5, 2, 3, 2),
    ),
    "most of a window": parse(
        "Y[c,y,x] max= X[c,y*2+r-1,x*2+s-1] - 10",
        {"c": 2, "y": 5, "x": 6, "r": 3, "s": 3},
        X=(2, 9, 12),
    ),
    "rows": parse("S[i] += X[i,j]", {"i": 9, "j": 1003}, X=(9, 1003, "float16")),
    "columns": parse("S[j] += X[i,j]", {"i": 300, "j": 70}, "S[j] / 300", X=(300, 70)),
    "the middle": parse("S[b,j] max= X[b,i,j]", {"b": 3, "i": 50, "j": 7}, X=(3, 50, 7)),
    "outer and inner": parse("S[i] += X[b,i,j]", {"b": 3, "i": 5, "j": 33}, X=(3, 5, 33)),
    "all": parse("S[] max= X[i,j] - 100", {"i": 120, "j": 130}, X=(120, 130)),
    "norms": parse(
        "S[b] += X[b,i,j] * X[b,i,j]",
        {"b": 3, "i": 61, "j": 200},
        "sqrt(S[b])",
        X=(3, 61, 200),
    ),
    "distances": parse(
        "D[i,j] += (A[i,k]-B[j,k]) * (A[i,k]-B[j,k])",
        {"i": 20, "j": 33, "k": 40},
        A=(20, 40),
        B=(33, 40),
    ),
    "integers": parse("S[i] max= X[i,j]", {"i": 9, "j": 300}, X=(9, 300, "int8")),
    "by a vector": parse("y[i] += A[i,k] * x[k]", {"i": 33, "k": 700}, A=(33, 700), x=(700,)),
    "softmax": parse(
        "M[i] max= X[i,k]; E[i] += exp(X[i,k]-M[i]); Y[i,k] = exp(X[i,k]-M[i]) / E[i]",
        {"i": 13, "k": 100},
        X=(13, 100, "float16"),
    ),
    "deviations": parse(
        "A[k] += X[i,k]; V[k] += (X[i,k]-A[k]/13)*(X[i,k]-A[k]/13); Y[k] = sqrt(V[k]) + A[k]",
        {"i": 13, "k": 70},
        X=(13, 70),
    ),
    "a chain": parse("Y[i] = relu(2*X[i]+1)/2", {"i": 5001}, X=(5001,)),
    "turned": parse(
        "Y[i,j] = X[j,i] + Z[i,j]*B[j]", {"i": 50, "j": 70}, X=(70, 50), Z=(50, 70), B=(70,)
    ),
    "one": parse("Y[i] = exp(X[i])", {"i": 1}, X=(1,)),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_sketch_without_a_dot(name: str, h200) -> None:
    found = list(legal(WORKLOADS[name], h200, random.Random(name)))
    assert found
    for schedule in found:
        assert_right(WORKLOADS[name], schedule, h200)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize(
    "how", [{"dilation": 2, "kernel": (3, 3)}, {"kernel": (2, 1)}], ids=["missed", "one tap"]
)
def test_what_no_tap_reaches_is_written_first(layout: str, how, h200) -> None:
    made = Convolution(
        n=2,
        extents=(4, 5),
        ci=3,
        depthwise=True,
        transposed=True,
        stride=2,
        layout=layout,
        dtype="float32",
        epilogue=("bias", "relu"),
        **how,
    )
    workload = workload_of(made)
    assert workload.elsewhere is not None
    for schedule in legal(workload, h200, random.Random(layout)):
        assert_right(workload, schedule, h200)


SHARED = parse("S[b] max= X[b,i] - 50", {"b": 3, "i": 200}, X=(3, 200))


@pytest.mark.parametrize("via", ["counter", "workspace"])
def test_a_maximum_is_shared(via: str, h200) -> None:
    """All values are far below zero: a share of nothing taken for 0 would win."""
    join = (
        [
            Split("part_all", "every0", "every1", 4),
            Tile((("k1",), ("every1",))),
            Bind(("b", "part")),
        ]
        if via == "counter"
        else [
            Tile((("k1",),)),
            Bind(("b", "part")),
            Split("part", "part0", "part1", 4, nest=1),
            Tile((("part1",),), nest=1),
            Bind(("b",), nest=1),
        ]
    )
    share = SplitReduction("i", "part", "rest", 3, via, 32)
    steps = [share, Split("rest", "k0", "k1", 32), *join, ReduceLate(), Warps(1)]
    assert_right(SHARED, Schedule(tuple(steps)), h200)


def test_maxima_are_not_added_atomically(h200) -> None:
    with pytest.raises(IllegalStep, match="the reduction is 'max'; only sums are added atomically"):
        render(SHARED, Schedule((SplitReduction("i", "part", "rest", 3, "atomic", 32),)), h200)


def rows_together(rows: int, block: int = 128) -> Schedule:
    """Channels first: ``rows`` rows of outputs in one program."""
    return Schedule(
        (
            Split("y", "y0", "u", rows),
            Fuse(("y0", "x"), "p"),
            Split("p", "p0", "p1", block),
            Tile((("p1",),)),
            Bind(("n", "g", "p0")),
            Order(("r", "s")),
            Unroll("u"),
            Unroll("r"),
            Unroll("s"),
            Warps(4),
        )
    )


@pytest.mark.parametrize("rows", [1, 4])
def test_rows_that_outputs_share_are_loaded_once(rows: int, pool, h200) -> None:
    """5 x 5 taps, stride 2: r rows of outputs see 2 r + 3 rows of inputs."""
    workload = depthwise(1, (33, 33), 2, (5, 5), 2, 2, 1, "first", "float32")
    schedule = rows_together(rows)
    ptx = pool.text(render(workload, schedule, h200), h200.triton_target)["kernel"]["ptx"]
    assert len(re.findall(r"ld\.global\S*b32", ptx)) == 5 * (2 * rows + 3) + 25
    assert len(re.findall(r"st\.global\S*b32", ptx)) == rows


def test_unrolled_spatial_axes_are_refused_where_blocks_are_cut_otherwise(h200) -> None:
    workload = depthwise(1, (33, 33), 2, (3, 3), 1, 1, 1, "first", "float32")
    steps = rows_together(2).steps
    with pytest.raises(IllegalStep, match="spatial axis 'u' is unrolled, but it is stored in 2"):
        render(workload, Schedule((*steps, CacheWrite("pointer", 2))), h200)


@pytest.mark.parametrize(
    ("expression", "sizes", "inputs", "choices", "loads"),
    [
        # 128 threads: rows of 1024 elements, 4 at a time; 32 x 64 elements of columns;
        # 4 vectors of a chain; 4 pixels of 16 channels and 9 taps.
        ("S[i] += X[i,j]", (256, 131072), "X", {"tile_m": 4, "tile_k": 1024}, 8),
        ("S[j] += X[i,j]", (4096, 4096), "X", {"tile_n": 128, "tile_k": 16}, 4),
        ("Y[i,j] = X[i,j] + 1", (4096, 4096), "X", {"tile_n": 2048}, 4),
    ],
    ids=["rows", "columns", "chain"],
)
def test_16_bytes_a_thread(expression, sizes, inputs, choices, loads, pool, h200) -> None:
    i, j = sizes
    workload = parse(expression, {"i": i, "j": j}, **{inputs: (i, j)})
    sketch = sketches(workload, h200)[0]
    schedule = fill(sketch, {**choices, "warps": 4})
    ptx = pool.text(render(workload, schedule, h200), h200.triton_target)["kernel"]["ptx"]
    found = re.findall(r"ld\.global\S*", ptx)
    assert len(found) == loads
    assert all(".v4." in load for load in found)


def test_a_row_that_is_read_again_is_loaded_once(pool, h200) -> None:
    """Rows of 4096 float32 in 256 threads: 4 loads and 4 stores of 16 bytes each."""
    workload = parse(
        "Q[i] += X[i,k]*X[i,k]; Y[i,k] = X[i,k] * rsqrt(Q[i]/4096 + 0.00001)",
        {"i": 2048, "k": 4096},
        X=(2048, 4096, "float32"),
    )
    (sketch,) = sketches(workload, h200)
    schedule = fill(sketch, {"tile_m": 1, "tile_n": 4096, "warps": 8})
    ptx = pool.text(render(workload, schedule, h200), h200.triton_target)["kernel"]["ptx"]
    assert re.findall(r"ld\.global\S*", ptx) == ["ld.global.v4.b32"] * 4
    assert re.findall(r"st\.global\S*", ptx) == ["st.global.v4.b32"] * 4


def test_channels_are_loaded_16_bytes_a_thread_and_nothing_is_spilled(pool, h200) -> None:
    workload = depthwise(16, (112, 112), 64, (3, 3), 2, 1, 1, "last", "float32")
    named = {sketch.name: sketch for sketch in sketches(workload, h200)}
    # Four vectors a thread: of 9 taps, or of the 25 positions that a patch of 2 x 2 shares.
    wide = {
        "direct.channels": 4 * 9,
        "direct.channels.packed": 4 * 9 + 9,
        "direct.channels.rows2.columns2": 4 * 25,
    }
    for name, count in wide.items():
        schedule = fill(named[name], {"tile_m": 32, "tile_n": 64, "warps": 4})
        ptx = pool.text(render(workload, schedule, h200), h200.triton_target)["kernel"]["ptx"]
        assert len(re.findall(r"ld\.global\S*v4\.b32", ptx)) == count, name
        assert "local" not in ptx
