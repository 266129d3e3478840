"""Launch plans: what does not fit the smaller dimensions of a grid, or no grid at all."""

import pytest

from autosched.codegen.render import render
from autosched.te import operators
from search_space.refusal import IllegalStep
from search_space.schedule import Schedule
from search_space.steps import Bind, Split, Tile


def test_a_batch_past_65535_lies_along_the_first_dimension(schedules, h200) -> None:
    workload = operators.batch_matmul(70_000, 17, 40, 33, dtype="float16", epilogue=("bias",))
    found = list(schedules.typical(workload, h200, split=1))
    assert found
    for sketch, schedule in found:
        kernels = render(workload, schedule, h200).kernels
        assert all(kernel.grid[1:] == (1, 1) for kernel in kernels), sketch.name
        assert sketch.structure.persistent or kernels[-1].grid[0] >= 70_000, sketch.name


@pytest.mark.parametrize(("batch", "fits"), [(2**31 - 1, True), (2**31, False)])
def test_a_grid_that_no_launch_can_count_is_refused(batch: int, fits: bool, h200) -> None:
    workload = operators.batch_matmul(batch, 1, 1, 16, dtype="float16")
    steps = (
        Split("i", "i0", "i1", 1),
        Split("j", "j0", "j1", 1),
        Split("k", "k0", "k1", 16),
        Tile((("i1",), ("j1",), ("k1",))),
        Bind(("b", "i0", "j0")),
    )
    if fits:
        (kernel,) = render(workload, Schedule(steps), h200).kernels
        assert kernel.grid == (batch, 1, 1)
        assert "tl.int64" in kernel.source
    else:
        with pytest.raises(IllegalStep, match="the grid has 2147483648 points, a kernel counts"):
            render(workload, Schedule(steps), h200)
