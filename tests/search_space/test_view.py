"""A view points where the tensor does, whatever becomes of its dimensions."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_space.apply import IllegalStep, apply
from search_space.expr import Affine, Call, Read, reads
from search_space.index import Index, Quotient, Var
from search_space.nest import Nest, initial
from search_space.steps import Fuse, Split, Step, View
from search_space.workload import Axis, Stage, Tensor, Workload


def window(h: int, w: int, c: int, stride: int, dilation: int, padding: int, taps: int) -> Workload:
    """acc[n,y,x,o] sum= X[n, stride*y + dilation*r - padding, ..., c] * W[o,r,s,c]."""
    y_extent, x_extent = (
        (e + 2 * padding - dilation * (taps - 1) - 1) // stride + 1 for e in (h, w)
    )
    extents = (("n", 2), ("y", y_extent), ("x", x_extent), ("o", 3))
    axes = tuple(Axis(name, extent, "spatial") for name, extent in extents)
    reduced = tuple(Axis(name, e, "reduction") for name, e in (("r", taps), ("s", taps), ("c", c)))
    ax = Affine.axis
    at = [
        Affine.of({spatial: stride, tap: dilation}, -padding)
        for spatial, tap in (("y", "r"), ("x", "s"))
    ]
    index = tuple(ax(name) for name, _ in extents)
    product = Call(
        "mul",
        (Read("X", (ax("n"), *at, ax("c"))), Read("W", (ax("o"), ax("r"), ax("s"), ax("c")))),
    )
    shape = tuple(extent for _, extent in extents)
    return Workload(
        (*axes, *reduced),
        (Tensor("X", (2, h, w, c), "float16"), Tensor("W", (3, taps, taps, c), "float16")),
        (Tensor("acc", shape, "float32"),),
        Tensor("Y", shape, "float16"),
        (Stage("acc", index, product, "sum"), Stage("Y", index, Read("acc", index))),
    )


def after(workload: Workload, *steps: Step) -> Nest:
    nests: tuple[Nest, ...] = (initial(workload),)
    for step in steps:
        nests = apply(nests, step)
    return nests[0]


def value(index: Index, point: dict[str, int]) -> int:
    total = index.constant
    for atom, coefficient in index.terms:
        if isinstance(atom, Var):
            held = point[atom.name]
        else:
            within = value(atom.value, point)
            is_quotient = isinstance(atom, Quotient)
            held = within // atom.divisor if is_quotient else within % atom.divisor
        total += coefficient * held
    return total


def places(nest: Nest, read: Read, point: dict[str, int]) -> int | None:
    """The offset that ``read`` points to, None where it is out of range."""
    tensor = nest.tensor[read.tensor]
    at = [value(nest.resolve(form), point) for form in read.index]
    if any(not 0 <= p < e for p, e in zip(at, tensor.shape, strict=True)):
        return None
    return sum(p * s for p, s in zip(at, tensor.strides, strict=True))


def assert_same(before: Nest, tensor: str, step: View) -> Nest:
    nest = apply((before,), step)[0]
    (old,) = (r for r in reads(before.statements[0].value) if r.tensor == tensor)
    (new,) = (r for r in reads(nest.statements[0].value) if r.tensor == step.into)
    leaves = [name for name in before.leaves if name in before.extents]
    rng = random.Random(0)
    for _ in range(100):
        point = {name: rng.randrange(before.extents[name]) for name in leaves}
        assert places(before, old, point) == places(nest, new, point)
    return nest


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 2), st.integers(1, 3), st.integers(0, 3), st.integers(1, 3), st.integers(0, 1)
)
def test_steps_of_two(stride: int, dilation: int, padding: int, taps: int, more: int) -> None:
    reach = dilation * (taps - 1) + 1
    extent = max(2, reach + more)
    extent += extent % 2
    before = after(window(extent, extent, 2, stride, dilation, padding, taps))
    order = tuple((d,) for d in range(4))
    nest = assert_same(before, "X", View("X", "V", order, (1, stride, stride, 1)))
    for form in nest.tensor["V"].shape and reads(nest.statements[0].value)[0].index:
        assert dict(form.terms).get("x", 1) == dict(form.terms).get("y", 1) == 1


@settings(max_examples=5, deadline=None)
@given(st.permutations(range(4)))
def test_any_order(order: list[int]) -> None:
    before = after(window(3, 4, 2, 1, 1, 1, 2))
    nest = assert_same(before, "W", View("W", "V", tuple((d,) for d in order)))
    assert nest.tensor["V"].shape == tuple((3, 2, 2, 2)[d] for d in order)
    assert nest.buffer("V") == "W"


def test_joined_dimensions_are_read_at_the_axis_that_runs_over_them() -> None:
    fused = Fuse(("n", "y", "x"), "pixel")
    before = after(window(3, 4, 2, 1, 1, 0, 1), fused, Split("pixel", "p0", "p1", 16))
    nest = assert_same(before, "X", View("X", "V", ((0, 1, 2), (3,))))
    assert reads(nest.statements[0].value)[0].index[0] == Affine.axis("pixel")
    assert nest.tensor["V"].shape == (24, 2)
    assert nest.reduction_axes(nest.statements[0]) == ("r", "s", "c")
    (stored,) = apply((before,), View("Y", "Z", ((0, 1, 2), (3,))))
    assert stored.statements[-1].index == (Affine.axis("pixel"), Affine.axis("o"))
    assert stored.output.shape == (24, 3)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (View("Q", "V", ((0,),)), "'Q' is not read"),
        (View("acc", "V", ((0,), (1,), (2,), (3,))), "'acc' is not read"),
        (View("X", "n", ((0,), (1,), (2,), (3,))), "the name 'n' is taken"),
        (View("X", "V", ((0,), (1,), (2,))), "each of 4 dimensions once"),
        (View("X", "V", ((0,), (1,), (2,), (3,), (3,))), "each of 4 dimensions once"),
        (View("X", "V", ((0,), (1,), (2,), (3,), ())), "is made of none"),
        (View("X", "V", ((0,), (1,), (2,), (3,)), (2,)), "are no steps of 4 dimensions"),
        (View("X", "V", ((0,), (1,), (2,), (3,)), (1, 0, 1, 1)), "are no steps of 4 dimensions"),
        (View("X", "V", ((1, 0), (2,), (3,))), "leave gaps"),
        (View("X", "V", ((0, 1), (2,), (3,))), "leave gaps"),
        (View("X", "V", ((0,), (1, 2), (3,))), "dimension 2 of 'X' is left"),
        (View("X", "V", ((0,), (1,), (2,), (3,)), (1, 2, 1, 1)), "has no whole steps"),
    ],
    ids=str,
)
def test_what_is_no_view(step: View, reason: str) -> None:
    workload = window(3, 4, 2, 1, 1, 1, 2)
    strided = replace(workload.inputs[0], strides=(32, 8, 2, 1))
    workload = replace(workload, inputs=(strided, workload.inputs[1]))
    with pytest.raises(IllegalStep, match=reason):
        after(workload, step)


def test_odd_extents_have_no_phases_unless_one_alone_is_read() -> None:
    order = tuple((d,) for d in range(4))
    with pytest.raises(IllegalStep, match="dimension 1 of 5 does not end with a step of 2"):
        after(window(5, 6, 2, 2, 1, 1, 3), View("X", "V", order, (1, 2, 2, 1)))
    nest = assert_same(after(window(5, 6, 2, 2, 1, 0, 1)), "X", View("X", "V", order, (1, 2, 2, 1)))
    assert nest.tensor["V"].shape == (2, 3, 3, 2)
