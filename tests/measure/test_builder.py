"""The builder pool compiles for any target without a GPU, and no build can break the next."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import hand_kernels as kernels
import pytest
import triton

from measure.builder import BuilderPool, BuildError, patience_s
from measure.compiler import compile_kernel
from measure.job import Built
from measure.measurement import Cause, Failed, Failure

SM90 = ("cuda", 90, 32)
SM80 = ("cuda", 80, 32)
GFX942 = ("hip", "gfx942", 64)
MATMUL = kernels.workload(256, 256, 256)
#: Text that never finishes importing: the compiler's process hangs in our own exec.
ENDLESS = "while True:\n    pass\n"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuilderPool]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        with BuilderPool(1, timeout_s=60) as running:
            yield running


@pytest.mark.parametrize("target", [SM90, SM80, GFX942])
def test_compiles_pointers_for_every_target(
    pool: BuilderPool, target: tuple[str, int | str, int]
) -> None:
    built = pool.build(kernels.pointer_matmul(MATMUL, (64, 64, 32)), target)
    assert isinstance(built, Built)
    assert 16 <= built.facts.registers <= 255
    assert built.facts.stack_bytes == 0
    assert built.facts.shared_bytes >= 2 * (64 * 32 + 32 * 64)
    assert built.facts.binary_bytes > 1000


def test_descriptors_become_bulk_copies_and_wgmma(pool: BuilderPool) -> None:
    built = pool.build(kernels.descriptor_matmul(MATMUL, (64, 64, 64)), SM90)
    assert isinstance(built, Built)
    assert {"HGMMA", "UTMALDG", "UTMASTG"} <= set(built.facts.instructions)


def test_pointer_loads_are_16_byte_async_copies(pool: BuilderPool) -> None:
    text = pool.text(kernels.pointer_matmul(MATMUL, (64, 64, 32)), SM80)["kernel"]
    assert "cp.async.cg.shared.global [ %r" in text["ptx"].replace("\t", " ")
    assert ", 0x10" in text["ptx"] or ", 16" in text["ptx"]


def test_text_has_every_level(pool: BuilderPool) -> None:
    text = pool.text(kernels.pointer_matmul(MATMUL), SM90)["kernel"]
    assert {"ttir", "ttgir", "llir", "ptx", "sass"} <= set(text)
    assert "amdgcn" in pool.text(kernels.pointer_matmul(MATMUL), GFX942)["kernel"]


@pytest.mark.parametrize("make", [kernels.pointer_matmul, kernels.descriptor_matmul])
@pytest.mark.parametrize("target", [SM90, SM80])
def test_counted_opcodes_are_the_disassemblers(pool, make, target) -> None:  # type: ignore[no-untyped-def]
    program = make(MATMUL, (64, 64, 64))
    built = pool.build(program, target)
    assert isinstance(built, Built)
    sass = pool.text(program, target)["kernel"]["sass"]
    for name in ("HGMMA", "HMMA", "UTMALDG", "LDGSTS", "LDG", "STG", "LDS", "STS", "LDSM", "BAR"):
        shown = len(re.findall(rf"[\s;]{name}(?=[.\s])", sass))
        assert built.facts.instructions.get(name, 0) == shown, name


def test_syntax_error_is_one_line(pool: BuilderPool) -> None:
    broken = kernels.with_source(kernels.pointer_matmul(MATMUL), "def kernel(a, b, c:\n")
    result = pool.build(broken, SM90)
    assert isinstance(result, Failed)
    assert result.kind is Failure.COMPILE
    assert result.detail.startswith("SyntaxError:")
    assert "\n" not in result.detail


def test_refusal_of_the_compiler_is_named(pool: BuilderPool) -> None:
    wrong = kernels.pointer_matmul(MATMUL, (48, 32, 32))
    result = pool.build(wrong, SM90)
    assert isinstance(result, Failed)
    assert result.kind is Failure.COMPILE
    assert "power of 2" in result.detail
    assert "\n" not in result.detail


def test_launch_plan_and_text_must_agree(pool: BuilderPool) -> None:
    text = kernels.HEAD + "def kernel(a, b):\n    tl.store(b, tl.load(a))\n"
    result = pool.build(kernels.with_source(kernels.pointer_matmul(MATMUL), text), SM90)
    assert isinstance(result, Failed)
    assert result.detail == ("BadKernel: kernel takes 2 parameters, the launch plan has 3")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\nos.abort()\n", "SIGABRT"),
        ("import os\nos._exit(0)\n", "exit code 0"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "was killed"),
        (
            "import os\nfor fd in range(3, 1024):\n    try:\n        os.write(fd, b'garbage' * 9)\n"
            "    except OSError:\n        pass\n",
            "garbage",
        ),
    ],
)
def test_worker_that_breaks_costs_one_program(pool: BuilderPool, text: str, said: str) -> None:
    good = kernels.pointer_matmul(MATMUL)
    bad = kernels.with_source(good, text)
    results = [pool.submit(bad, SM90), pool.submit(good, SM90)]
    failed, built = (future.result() for future in results)
    assert isinstance(failed, Failed)
    assert failed.kind is Failure.COMPILE
    assert said in failed.detail
    assert isinstance(built, Built)


def test_endless_build_is_killed_at_its_deadline() -> None:
    good = kernels.pointer_matmul(MATMUL)
    with BuilderPool(1, timeout_s=8) as pool:
        failed = pool.submit(kernels.with_source(good, ENDLESS), SM90)
        built = pool.submit(good, SM90)
        late = Failed(
            Failure.TIMEOUT, "the build took more than 8 s", build_s=8, cause=Cause.BUILD_DEADLINE
        )
        assert failed.result() == late
        assert isinstance(built.result(), Built)


def test_patience_follows_what_builds_take() -> None:
    assert patience_s([], 60.0) == 60.0
    assert patience_s([0.1] * 15, 60.0) == 60.0, "too few to tell"
    assert patience_s([0.1] * 16, 60.0) == 10.0
    assert patience_s([1.0] * 16, 60.0) == 20.0
    assert patience_s([30.0] * 64, 60.0) == 60.0
    assert patience_s([0.1] * 64, 5.0) == 5.0


def test_close_does_not_wait_for_a_hanging_build() -> None:
    pool = BuilderPool(1, timeout_s=300)
    future = pool.submit(kernels.with_source(kernels.pointer_matmul(MATMUL), ENDLESS), SM90)
    while not future.running():
        time.sleep(0.01)
    closer = threading.Thread(target=pool.close)
    closer.start()
    closer.join(timeout=30)
    assert not closer.is_alive()


def test_text_of_a_broken_program_raises(pool: BuilderPool) -> None:
    with pytest.raises(BuildError, match="SyntaxError"):
        pool.text(kernels.with_source(kernels.pointer_matmul(MATMUL), "def"), SM90)


def test_what_one_process_builds_another_finds_in_the_cache(pool: BuilderPool) -> None:
    program = kernels.pointer_matmul(kernels.workload(96, 96, 96))
    assert isinstance(pool.build(program, SM90), Built)
    seen: list[bool] = []
    triton.knobs.compilation.listener = lambda **event: seen.append(event["cache_hit"])
    try:
        compile_kernel(program, program.kernels[0], SM90)
    finally:
        triton.knobs.compilation.listener = None
    assert seen == [True]


def test_nothing_outlives_a_killed_parent() -> None:
    script = (
        "import os, sys, time\n"
        "from measure.child import Child\n"
        "child = Child('measure.build_worker')\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        group = int(parent.stdout.readline())
        os.killpg(group, 0)
        parent.kill()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and _alive(group):
        time.sleep(0.05)
    assert not _alive(group)


def _alive(group: int) -> bool:
    listing = subprocess.run(
        ["ps", "-o", "stat=", "-g", str(group)], capture_output=True, text=True, check=False
    ).stdout.split()
    return any(not state.startswith("Z") for state in listing)
