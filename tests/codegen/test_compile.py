"""Kernels compiled without a GPU: what a schedule promises is found in the machine's text."""

import re

import pytest

from autosched.codegen.render import render
from autosched.te import operators
from autosched.te.layout import stored
from measure.builder import BuilderPool
from search_space.program import DescriptorArgument
from search_space.target import load

PATTERNS = {
    "wgmma": "wgmma.mma_async",
    "mma": "mma.sync",
    "tma": "cp.async.bulk.tensor",
    "cp.async": "cp.async.c",
}
WORKLOADS = {
    "square": operators.matmul(1024, 1024, 1024, dtype="float16"),
    "epilogue": operators.matmul(
        1000, 520, 1000, dtype="bfloat16", trans_b=True, epilogue=["bias", "residual", "gelu_tanh"]
    ),
    "decode": operators.matmul(16, 4096, 4096, dtype="bfloat16", trans_b=True),
    "tf32": operators.matmul(256, 512, 1024, dtype="float32", trans_b=True, precision="tf32"),
    "float8": operators.matmul(
        256,
        512,
        1024,
        dtype="float8_e4m3",
        precision="fast",
        trans_b=True,
        epilogue=["scale_a", "column_scale", "bias"],
    ),
    "float8_ieee": operators.matmul(256, 512, 1024, dtype="float8_e4m3", trans_b=True),
    "int8": operators.matmul(256, 512, 1024, dtype="int8", trans_b=True),
    "tf32x3": operators.matmul(128, 128, 256, dtype="float32", precision="tf32x3", trans_b=True),
    "ieee": operators.matmul(256, 256, 256, dtype="float32"),
    "batch": operators.batch_matmul(8, 200, 264, 64, dtype="float16", trans_a=True),
}


@pytest.fixture(scope="module")
def pool():
    with BuilderPool(workers=2, timeout_s=120) as pool:
        yield pool


@pytest.mark.parametrize("case", WORKLOADS)
def test_every_sketch_keeps_its_promises_on_sm_90(case: str, pool, schedules, h200) -> None:
    workload = WORKLOADS[case]
    for sketch, schedule in schedules.typical(workload, h200):
        program = render(workload, schedule, h200)
        texts = pool.text(program, h200.triton_target)
        for kernel in program.kernels:
            ptx = texts[kernel.name]["ptx"]
            missing = [p for p in kernel.promises if PATTERNS[p] not in ptx]
            assert not missing, f"{sketch.name}: {missing} not in the PTX of {kernel.name}"
        if case != "ieee":
            assert {"wgmma", "mma"} & set(program.kernels[0].promises), sketch.name


def test_operands_in_registers_are_not_loaded_before_the_products_of_a_turn_end(
    pool, schedules, h200
) -> None:
    workload = operators.matmul(256, 512, 1024, dtype="float32", precision="tf32")
    for sketch, schedule in schedules.typical(workload, h200, tile_m=128):
        if not sketch.structure.registers:
            continue
        program = render(workload, schedule, h200)
        texts = pool.text(program, h200.triton_target)["kernel"]
        waits = re.findall(r"wgmma.wait_group.sync.aligned (\d+)", texts["ptx"])
        assert waits
        assert set(waits) == {"0"}, sketch.name
        loop = texts["ptx"].split("wgmma.commit_group")[0]
        assert "ld.shared.b32" in loop, sketch.name
        assert "st.shared" not in loop, f"{sketch.name} copies through shared memory"
        if "sass" in texts:
            assert overwritten_in_flight(texts["sass"]) == [], sketch.name


def overwritten_in_flight(sass: str) -> list[str]:
    """The instructions that write a first operand's register before its product has ended."""
    held: set[int] = set()
    found = []
    for line in sass.splitlines():
        if "DEPBAR.LE gsb0, 0x0" in line:
            held.clear()
        if product := re.search(r"HGMMA\S* R\d+, R(\d+), gdesc", line):
            held |= set(range(int(product[1]), int(product[1]) + 4))
        elif (write := re.search(r"\t(?:@\S+ )?(?!ST|RED)[A-Z][\w.]* R(\d+),", line)) and (
            int(write[1]) in held
        ):
            found.append(line)
    return found


def test_the_check_of_registers_in_flight_finds_one() -> None:
    dot = "c\tHGMMA.64x128x8.F32.TF32 R24, R152, gdesc[UR12], R24, gsb0;\n"
    load = "c\tLDS R154, [R9+UR7];\n"
    wait = "c\tWARPGROUP.DEPBAR.LE gsb0, 0x0;\n"
    assert overwritten_in_flight(dot + load + wait) == [load.rstrip()]
    assert overwritten_in_flight(dot + wait + load) == []


def test_both_kernels_of_a_peeled_product_keep_their_promises(pool, schedules, h200) -> None:
    workload = operators.matmul(1032, 2048, 512, dtype="bfloat16", epilogue=["bias", "gelu"])
    wish = {"tile_m": 128, "tile_n": 256, "tile_k": 64, "warps": 8}
    for sketch, schedule in schedules.typical(workload, h200, **wish):
        if sketch.structure.peeled == "m" and sketch.structure.persistent:
            program = render(workload, schedule, h200)
            texts = pool.text(program, h200.triton_target)
            body, rest = (texts[kernel.name]["ptx"] for kernel in program.kernels)
            assert PATTERNS["wgmma"] in body
            assert PATTERNS["tma"] in rest
            assert {"wgmma", "mma"} & set(program.kernels[1].promises)
            for kernel in program.kernels:
                assert all(PATTERNS[p] in texts[kernel.name]["ptx"] for p in kernel.promises)


def test_pointer_loads_are_16_byte_copies(pool, schedules, h200) -> None:
    workload = WORKLOADS["square"]
    sketch, schedule = next(iter(schedules.typical(workload, h200)))
    program = render(workload, schedule, h200)
    ptx = pool.text(program, h200.triton_target)["kernel"]["ptx"]
    assert sketch.name == "contraction.pointer"
    assert "cp.async.cg.shared.global [ %r" in ptx
    assert "cp.async.ca.shared.global" not in ptx


def test_packing_stores_16_bytes_a_thread(pool, schedules, h200) -> None:
    workload = operators.matmul(200, 64, 1029, dtype="float16")  # rows of 1029: two bytes a load
    typical = schedules.typical(workload, h200)
    program = next(render(workload, x, h200) for sketch, x in typical if sketch.structure.packs)
    ptx = pool.text(program, h200.triton_target)["kernel_pack_A"]["ptx"]
    stores = re.findall(r"st\.global\S*", ptx)
    assert stores
    assert all(store == "st.global.v4.b32" for store in stores)


@pytest.mark.parametrize("aligned", [8, 4, 2])
def test_pointers_are_read_as_widely_as_they_are_aligned(
    aligned: int, pool, schedules, h200
) -> None:
    workload = WORKLOADS["square"]
    for tensor in "ABC":
        workload = stored(workload, tensor, alignment_bytes=aligned)
    programs = {s.name: render(workload, x, h200) for s, x in schedules.typical(workload, h200)}
    arguments = [a for p in programs.values() for k in p.kernels for a in k.arguments]
    described = {a.buffer for a in arguments if isinstance(a, DescriptorArgument)}
    assert not described & {"A", "B", "C"}  # copies of them may be
    program = programs["contraction.pointer"]
    ptx = pool.text(program, h200.triton_target)["kernel"]["ptx"]
    copies = set(re.findall(r"cp\.async\.c\w\.shared\.global \[[^;]*?\], (0x\w+)", ptx))
    moved = re.findall(r"(?:ld|st)\.global\S*?(?:\.v(\d))?\.b(\d+) ", ptx)
    widest = max(int(count or 1) * int(bits) // 8 for count, bits in moved)
    # There is no copy of 2 bytes: such operands pass through registers.
    assert copies == ({hex(aligned)} if aligned > 2 else set())
    assert widest == aligned


def test_rows_are_loaded_16_bytes_a_thread_and_added_up_once(pool, schedules, h200) -> None:
    workload = operators.matmul(1, 640, 8192, dtype="bfloat16", trans_b=True)
    wish = {"tile_n": 4, "tile_k": 512}
    found = {s.name: x for s, x in schedules.typical(workload, h200, **wish) if not s.structure.dot}
    assert {"rows", "rows.split.counter"} <= set(found)
    for schedule in found.values():
        program = render(workload, schedule, h200)
        assert not program.kernels[0].promises
        ptx = pool.text(program, h200.triton_target)["kernel"]["ptx"]
        loads = re.findall(r"ld\.global\S*\.(v\d)\.b32", ptx[: ptx.index("shfl")])
        # In a turn each of 128 threads loads 2 x 16 bytes of B, 4 x 512, and 8 of A.
        assert loads.count("v4") == 2 * loads.count("v2") > 0


@pytest.mark.parametrize(
    ("name", "level", "instruction"),
    [("a100", "ptx", "mma.sync"), ("mi300x", "amdgcn", "v_mfma")],
)
def test_other_targets_compile(name: str, level: str, instruction: str, pool, schedules) -> None:
    target = load(name)
    for case in ("square", "decode"):
        workload = WORKLOADS[case]
        for sketch, schedule in schedules.typical(workload, target, stages=2):
            program = render(workload, schedule, target)
            texts = pool.text(program, target.triton_target)
            assert instruction in texts[program.kernels[0].name][level], sketch.name


def test_plain_dots_read_their_second_operand_in_place_and_along_its_rows(
    pool, schedules, h200
) -> None:
    workload = operators.matmul(128, 256, 128, dtype="float32", trans_b=True)
    name = "contraction.pointer.packed.swapped"
    schedule = next(s for sketch, s in schedules.typical(workload, h200) if sketch.name == name)
    program = render(workload, schedule, h200)
    ttgir = pool.text(program, h200.triton_target)["kernel"]["ttgir"]
    loop = ttgir[ttgir.index("scf.for") :]
    second = re.search(r"local_load .*xf32, (#\w+), #smem, mutable> -> .*opIdx = 1", loop)
    assert second is not None
    assert re.search(rf"{second[1]} = .*order = \[1, 0\]", ttgir)
    assert "local_alloc" not in loop.split("scf.yield")[0]
