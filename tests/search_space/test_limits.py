"""Limits: every refusal is one sentence, and columns are judged as single candidates are."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.te import operators
from search_space import case as case_module
from search_space import limits
from search_space import target as targets
from search_space.rules import sketches
from search_space.sketch import CHOICES, Choice, Sketch, Structure
from search_space.workload import Axis, Tensor, Workload

H200 = targets.load("h200")
A100 = targets.load("a100")
TILES = (16, 32, 64, 128, 256, 512)
DOMAINS = {
    "tile_m": TILES,
    "tile_n": TILES,
    "tile_k": TILES,
    "stages": (1, 2, 3, 4, 5, 6, 7),
    "warps": (1, 2, 4, 8, 16, 64),
    "group": (1, 2, 4, 8, 16, 32),
    "parts": (1, 2, 4, 16),
    "split": (1, 2, 4, 8, 64),
    "ctas": (1, 2, 4),
}
STRUCTURE = Structure(
    batch=1,
    m=4096,
    n=4096,
    k=4096,
    a_dtype="float16",
    b_dtype="float16",
    accumulator_dtype="float32",
    output_dtype="float16",
    arithmetic="float16",
    a_k_major=True,
    b_k_major=True,
    a_row_bytes=16,
    b_row_bytes=16,
    output_row_bytes=16,
    load="descriptor",
    store="descriptor",
    persistent=False,
    split="none",
    epilogue_bytes=0,
    epilogue_calls=0,
)
GOOD = {"tile_m": 128, "tile_n": 256, "tile_k": 64, "stages": 3, "warps": 8}


def sketch(names: tuple[str, ...] = CHOICES, **changes: Any) -> Sketch:
    """A sketch without steps: limits read the structure and the domains alone."""
    axes = (Axis("i", 16, "spatial"), Axis("j", 16, "spatial"))
    workload = Workload(axes, (), (), Tensor("C", (16, 16), "float16"), ())
    choices = tuple(Choice(name, DOMAINS[name]) for name in names)
    return Sketch("by.hand", workload, (), choices, replace(STRUCTURE, **changes))


def choices_of(**changes: int) -> dict[str, int]:
    held = {name: case_module.DEFAULTS[name] for name in CHOICES}
    return {**held, **GOOD, **changes}


@pytest.mark.parametrize("persistent", [False, True])
def test_the_known_winner_of_large_matmuls_is_legal(persistent: bool) -> None:
    made = sketch(persistent=persistent)
    assert limits.violation(made, choices_of(), H200) is None


REFUSALS = [
    (
        {"tile_m": 512},
        {"m": 100},
        "tile_m=512 holds nothing but padding beyond 128: the extent is 100",
    ),
    (
        {"tile_k": 16},
        {"a_dtype": "float8_e4m3", "b_dtype": "float8_e4m3"},
        "tile_k=16 must fill one tensor core step of 32 bytes: it is 16 bytes of float8_e4m3",
    ),
    ({"warps": 64}, {}, "warps=64 must give at most 1024 threads: it gives 2048"),
    (
        {"warps": 2, "tile_m": 64, "tile_n": 16},
        {},
        "warps=2 must be a multiple of 4, which issue wgmma together: the dot has 64 rows",
    ),
    (
        {"warps": 4, "tile_m": 16, "tile_n": 16},
        {},
        "warps=4 leaves warps idle: a block of 16x16 holds 2 tensor core tiles",
    ),
    (
        {"stages": 5},
        {},
        "stages=5 with a block of 128x256x64 must fit in 232448 bytes of shared memory: it takes "
        "245840",
    ),
    (
        {"stages": 4},
        {"persistent": True},
        "stages=4 with a block of 128x256x64 must fit in 232448 bytes of shared memory: it takes "
        "262208",
    ),
    (
        {"warps": 4},
        {},
        "warps=4 with a block of 128x256 must fit in 255 registers a thread: it takes about 282",
    ),
    (
        {"tile_k": 512, "tile_m": 64, "tile_n": 16, "stages": 1, "warps": 4},
        {},
        "a descriptor's box has at most 256 elements a dimension: the block is 64x16x512",
    ),
    (
        {"parts": 16, "tile_n": 128, "warps": 4},
        {"store": "pointer"},
        "parts=16 must leave slices of 16 columns: tile_n=128 gives 8",
    ),
    (
        {},
        {"m": 1 << 24, "n": 1 << 24},
        "tile_m=128, tile_n=256 must give at most 2147483647 programs: they give 8589934592",
    ),
    (
        {"stages": 3},
        {"k": 128},
        "stages=3 keeps more loads in flight than there are: one program walks through 2 blocks "
        "of K",
    ),
    (
        {},
        {"split": "workspace"},
        "split=1 must be 2 or more in a sketch that shares a reduction",
    ),
    (
        {"split": 4, "stages": 2},
        {"split": "workspace", "k": 64 * 5, "m": 128, "n": 256},
        "split=4 must give every part some of K: 5 blocks of 64 in runs of 2 leave the last part "
        "empty",
    ),
    (
        {"split": 4},
        {"split": "workspace"},
        "split=4 must leave at most 8 programs for each of 132 multiprocessors: 512 blocks make "
        "2048",
    ),
    (
        {"group": 4},
        {"m": 256},
        "group=4 walks the grid as a smaller one does: it has 2 rows and 16 columns of blocks",
    ),
    (
        {"tile_m": 256, "tile_n": 128},
        {"peeled": "m", "m": 4992, "rest": 8},
        "tile_m=256 must divide the 4992 elements that peeling left",
    ),
    (
        {"ctas": 2},
        {"persistent": True},
        "ctas=2 must be resident together on a multiprocessor: 1 fit",
    ),
    (
        {"ctas": 2, "tile_m": 64, "tile_n": 64, "warps": 4},
        {"persistent": True, "m": 512, "n": 512},
        "ctas=2 starts programs without work: 64 blocks for 132 multiprocessors",
    ),
]


@pytest.mark.parametrize(("changes", "structure", "sentence"), REFUSALS)
def test_a_refusal_names_choice_wish_and_fact(
    changes: dict[str, int], structure: dict[str, Any], sentence: str
) -> None:
    assert limits.violation(sketch(**structure), choices_of(**changes), H200) == sentence


def test_the_dot_without_tensor_cores_is_bounded_by_its_text() -> None:
    made = sketch(arithmetic="float32", load="pointer", store="pointer")
    block = {"tile_m": 128, "tile_n": 128, "stages": 1, "warps": 4}
    assert limits.violation(made, choices_of(**block, tile_k=16), H200) is None
    assert limits.violation(made, choices_of(**block, tile_k=32), H200) == (
        "warps=4 with a block of 128x128x32 must write out at most 2048 multiply-adds a thread: "
        "it has 4096"
    )


@pytest.mark.parametrize(("tile_n", "registers"), [(32, 96), (64, 160), (128, 255)])
def test_a_dot_without_tensor_cores_holds_operands_in_registers(
    tile_n: int, registers: int
) -> None:
    made = sketch(arithmetic="float32", load="pointer", store="pointer")
    case = case_module.case_of(made, choices_of(tile_m=128, tile_n=tile_n, warps=4), H200)
    assert case_module.registers_estimate(case) == registers


def test_a_small_extent_keeps_the_smallest_choices_legal() -> None:
    smallest = {name: case_module.DEFAULTS[name] for name in CHOICES} | {"warps": 1}
    assert limits.violation(sketch(m=1, n=1, k=1), smallest, H200) is None


def test_mma_sync_needs_one_buffer_less_than_wgmma() -> None:
    four = choices_of(tile_m=128, tile_n=128, stages=4, warps=4)
    ring = 64 * (128 + 128) * 2
    case = case_module.case_of(sketch(), four, H200)
    assert case_module.shared_bytes(case) == 4 * ring + 4 * 16
    assert case_module.shared_bytes(replace(case, target=A100)) == 3 * ring + 4 * 16


def test_programs_per_multiprocessor_takes_the_tightest_resource() -> None:
    held = choices_of(tile_m=128, tile_n=128, stages=3, warps=4)
    case = case_module.case_of(sketch(), held, H200)
    assert case_module.registers_estimate(case) == 128 + 26
    assert case_module.programs_per_multiprocessor(case) == 2  # 96 KiB each of 228
    small = case_module.case_of(
        sketch(), choices_of(tile_m=128, tile_n=128, stages=1, warps=4), H200
    )
    assert case_module.programs_per_multiprocessor(small) == 3  # 160 registers of 128 threads


ANY_CHOICES = st.fixed_dictionaries({n: st.sampled_from(DOMAINS[n]) for n in CHOICES})
ANY_STRUCTURE = st.fixed_dictionaries(
    {
        "m": st.sampled_from([1, 17, 100, 4096]),
        "n": st.sampled_from([1, 33, 8192]),
        "k": st.sampled_from([1, 15, 700, 32768]),
        "load": st.sampled_from(["pointer", "descriptor"]),
        "store": st.sampled_from(["pointer", "descriptor"]),
        "persistent": st.booleans(),
        "split": st.sampled_from(["none", "workspace", "atomic"]),
        "arithmetic": st.sampled_from(["float16", "float32"]),
        "a_k_major": st.booleans(),
    }
)


@given(st.lists(ANY_CHOICES, min_size=1, max_size=20), ANY_STRUCTURE, st.sampled_from([H200, A100]))
def test_a_column_is_judged_as_each_candidate_is(
    population: list[dict[str, int]], structure: dict[str, Any], target: targets.Target
) -> None:
    made = sketch(**structure)
    matrix = np.array([[c[name] for name in made.names] for c in population])
    one_by_one = [limits.violation(made, choices, target) is not None for choices in population]
    assert limits.violations(made, matrix, target).tolist() == one_by_one


def test_a_sketch_that_lacks_a_choice_has_its_default() -> None:
    names = ("tile_m", "tile_n", "tile_k", "stages", "warps")
    matrix = np.array([[GOOD[name] for name in names]])
    assert limits.violation(sketch(names), GOOD, H200) is None
    assert not limits.violations(sketch(names), matrix, H200).any()


def test_blocks_that_an_epilogue_reads_take_shared_memory_too() -> None:
    """213,032 bytes is what Triton 3.6 takes for this kernel on sm_90."""
    workload = operators.matmul(
        5000, 5000, 5000, dtype="bfloat16", epilogue=("bias", "residual", "gelu")
    )
    sketch = next(
        s for s in sketches(workload, H200) if s.name == "contraction.descriptor.persistent"
    )
    choices = {"tile_m": 128, "tile_n": 256, "tile_k": 64, "stages": 3, "warps": 8, "group": 8}
    choices |= {"parts": 2, "ctas": 1}
    assert case_module.shared_bytes(case_module.case_of(sketch, choices, H200)) == 213_040
    assert "must fit in 232448 bytes" in (
        limits.violation(sketch, choices | {"stages": 4}, H200) or ""
    )
