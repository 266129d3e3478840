"""Schedules of the nearest workloads: which are near, and what of them is taken over."""

from dataclasses import replace

import numpy as np

from autosched.te.convolution import conv2d
from autosched.te.operators import batch_matmul, matmul
from autosched.tune.grid import Grid
from autosched.tune.nearest import distance, nearest, structure
from cost_model.dataset import Observation
from search_space import target as targets
from search_space.limits import violation
from search_space.rules import sketches
from search_space.workload import Workload

H200 = targets.load("h200")
HERE = matmul(256, 512, 1024, dtype="float16")
GRIDS = [Grid(sketch, H200) for sketch in sketches(HERE, H200)]


def observed(workload: Workload, count: int, first_us: float = 1.0) -> list[Observation]:
    """Some schedules of every sketch; the first are the fastest."""
    found = []
    for sketch in sketches(workload, H200)[:3]:
        grid = Grid(sketch, H200)
        for code in grid.random(count, np.random.default_rng(1)).tolist():
            found.append(Observation(sketch, grid.choices(code), first_us + len(found)))
    return found


def test_what_differs_in_extents_alone_is_alike() -> None:
    like = [matmul(300, 512, 64, dtype="float16"), matmul(8192, 100, 7, dtype="float16")]
    unlike = [
        matmul(256, 512, 1024, dtype="bfloat16"),
        matmul(256, 512, 1024, dtype="float16", trans_b=True),
        matmul(256, 512, 1024, dtype="float16", epilogue=["relu"]),
        batch_matmul(4, 256, 512, 1024, dtype="float16"),
    ]
    assert {structure(workload) == structure(HERE) for workload in like} == {True}
    assert {structure(workload) == structure(HERE) for workload in unlike} == {False}
    assert distance(HERE, matmul(512, 256, 1024, dtype="float16")) == 2.0


def test_windows_are_alike_whatever_their_padding_and_not_whatever_their_stride() -> None:
    def conv(**held: object) -> str:
        shape = {"n": 2, "h": 14, "w": 14, "ci": 32, "co": 64, "kh": 3, "kw": 3}
        return structure(conv2d(**{**shape, "dtype": "float16", **held}))

    assert conv(pad=1) == conv(pad=0) == conv(pad=1, h=28)
    assert conv(pad=1) != conv(pad=1, stride=2)


def test_the_nearest_come_first_and_the_fastest_of_each() -> None:
    near, far = matmul(256, 512, 512, dtype="float16"), matmul(4096, 4096, 64, dtype="float16")
    other = matmul(256, 512, 1024, dtype="bfloat16")
    known = [*observed(far, 2), *observed(near, 2), *observed(other, 2, first_us=0.1)]
    one = nearest(known, GRIDS, workloads=1, schedules=4)
    fastest = [held for held in known if held.sketch.workload == near][:4]
    assert [name for name, _ in one] == [held.sketch.name for held in fastest]
    both = nearest(known, GRIDS, workloads=2, schedules=4)
    assert set(one) < set(both)
    assert nearest(observed(other, 2), GRIDS) == ()


def test_what_is_taken_over_is_legal_and_as_it_was_where_that_is_legal() -> None:
    again = observed(HERE, 3)
    keys = [(o.sketch.name, tuple(o.choices[n] for n in o.sketch.names)) for o in again]
    assert list(nearest(again, GRIDS)) == keys
    by_name = {grid.sketch.name: grid for grid in GRIDS}
    wide = observed(matmul(8192, 8192, 8192, dtype="float16"), 8)
    for name, values in nearest(wide, GRIDS):
        sketch = by_name[name].sketch
        assert violation(sketch, dict(zip(sketch.names, values, strict=True)), H200) is None


def test_failures_and_sketches_that_are_not_here_teach_nothing() -> None:
    [first, *_] = observed(HERE, 1)
    stranger = replace(first, sketch=replace(first.sketch, name="of another rule"))
    assert nearest([replace(first, latency_us=None), stranger], GRIDS) == ()
