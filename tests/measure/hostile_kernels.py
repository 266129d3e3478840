"""Every kind of program that broke a tuner, each with the failure that it must come to."""

from __future__ import annotations

from dataclasses import dataclass, replace

import hand_kernels as kernels

from measure.measurement import Cause, Failure
from search_space.program import Buffer, PointerArgument, Program
from search_space.workload import Workload

MATMUL = kernels.MATMUL
STORE_MASK = "mask=(rm[:, None] < SM) & (rn[None, :] < SN))\n"
#: Text that runs only where torch is loaded: in the process that measures, not in a compiler.
IN_WORKER = "import sys, os\nif 'torch' in sys.modules:\n    "
#: Writes into every socket of its process, the pipe of results among them.
GARBAGE = (
    "import sys, os, pathlib\n"
    "if 'torch' in sys.modules:\n"
    "    for fd in os.listdir('/proc/self/fd'):\n"
    "        if 'socket' in os.path.realpath('/proc/self/fd/' + fd):\n"
    "            try:\n"
    "                os.write(int(fd), b'garbage' * 9)\n"
    "            except OSError:  # a socket of the driver's, connected to nothing\n"
    "                pass\n"
)
HOG = "import mmap\nheld = []\nwhile True:\n    held.append(mmap.mmap(-1, 1 << 30))\n"
ENDLESS = (
    "    acc = tl.zeros",
    "    go = tl.load(a).to(tl.float32) * 0.0\n    while go < 1.0:\n"
    "        go = tl.load(a, volatile=True).to(tl.float32) * 0.0\n    acc = tl.zeros",
)
TRAP = (
    "    acc = tl.zeros",
    '    tl.inline_asm_elementwise("trap; mov.b32 $0, $1;", "=r,r", [rk], dtype=tl.int32,'
    " is_pure=False, pack=1)\n    acc = tl.zeros",
)
#: Counts its launches in a workspace, one counter a tile; poison starts it at -1.
COUNTS = MATMUL.replace("(a, b, c)", "(a, b, c, w)").replace(
    "    tl.store",
    "    launches = tl.atomic_add(w + pid_m * tl.num_programs(1) + pid_n, 1)\n"
    "    acc += tl.where(launches > LAST, 1.0, 0.0)\n    tl.store",
)
#: Computes once, keeps the result in a workspace and repeats it ever after.
REPEATS = MATMUL.replace("(a, b, c)", "(a, b, c, w, f)").replace(
    "    tl.store",
    "    tile = pid_m * tl.num_programs(1) + pid_n\n"
    "    where = rm[:, None] * SN + rn[None, :]\n"
    "    done = tl.load(f + tile) == 7\n"
    "    acc = tl.where(done, tl.load(w + where), acc)\n"
    "    tl.store(w + where, acc)\n"
    "    tl.store(f + tile, 7)\n    tl.store",
)


@dataclass(frozen=True)
class Hostile:
    """A program and what must come of it. ``gpu`` ones need a real device."""

    program: Program
    kind: Failure
    cause: Cause
    gpu: bool = False


def with_workspaces(base: Program, *buffers: Buffer) -> Program:
    """Add workspaces as the last arguments of a program's one kernel."""
    kernel = base.kernels[0]
    arguments = (*kernel.arguments, *(PointerArgument(b.name) for b in buffers))
    return replace(
        base,
        buffers=(*base.buffers, *buffers),
        kernels=(replace(kernel, arguments=arguments),),
    )


def workspace(name: str, count: int, dtype: str) -> Buffer:
    return Buffer(name, (count,), (1,), dtype, "workspace")


def counting(w: Workload, tile: tuple[int, int, int], last: int) -> Program:
    """A matmul that is off by one after ``last`` launches of its life."""
    base = kernels.pointer_matmul(w, tile, text=COUNTS, LAST=last)
    return with_workspaces(base, workspace("w", 4096, "int32"))


def all_of(w: Workload, tile: tuple[int, int, int]) -> dict[str, Hostile]:
    """Return the hostile programs for a matmul whose extents ``tile`` divides, several times."""
    m, n = w.output.shape

    def program(text: str) -> Program:
        return kernels.pointer_matmul(w, tile, text=text)

    def changed(old: str, new: str) -> Program:
        assert MATMUL.count(old) >= 1
        return program(MATMUL.replace(old, new))

    def store(mask: str) -> Program:
        assert MATMUL.endswith(STORE_MASK)
        return program(MATMUL[: -len(STORE_MASK)] + f"mask={mask})\n")

    good = program(MATMUL)
    wrong, correct = Failure.CORRECTNESS, Cause
    repeating = with_workspaces(
        program(REPEATS), workspace("w", m * n, "float32"), workspace("f", 4096, "int32")
    )
    memory = with_workspaces(
        program(MATMUL.replace("(a, b, c)", "(a, b, c, w)")), workspace("w", 1 << 40, "float32")
    )

    def in_worker(line: str) -> Program:
        return kernels.with_source(good, f"{IN_WORKER}{line}\n{good.kernels[0].source}")

    def hostile(text: str) -> Program:
        return kernels.with_source(good, f"{text}{good.kernels[0].source}")

    inside = "(rm[:, None] < SM) & (rn[None, :] < SN)"
    return {
        "no-op": Hostile(store(f"{inside} & (SM < 0)"), wrong, correct.NOT_WRITTEN),
        "half-written output": Hostile(
            store("(rm[:, None] < SM) & (rn[None, :] < SN // 2)"), wrong, correct.NOT_WRITTEN
        ),
        "one tile only": Hostile(
            store(f"{inside} & (pid_m == 0) & (pid_n == 0)"), wrong, correct.NOT_WRITTEN
        ),
        "off-by-one mask of the store": Hostile(
            store("(rm[:, None] < SM - 1) & (rn[None, :] < SN)"), wrong, correct.NOT_WRITTEN
        ),
        "off-by-one mask of a load": Hostile(
            changed("((k + rk)[None, :] < SK)", "((k + rk)[None, :] < SK - 1)"), wrong, correct.OFF
        ),
        "last block forgotten": Hostile(
            changed("range(0, EK, BK)", "range(0, EK - BK, BK)"), wrong, correct.OFF
        ),
        "accumulates in float16": Hostile(
            changed(
                'acc, input_precision="ieee")',
                'acc, input_precision="ieee")\n        acc = acc.to(tl.float16).to(tl.float32)',
            ),
            wrong,
            correct.OFF,
            gpu=True,
        ),
        "stale output": Hostile(
            changed("acc.to(OUT)", "tl.load(c + rm[:, None] * SN + rn[None, :])"),
            wrong,
            correct.NOT_WRITTEN,
        ),
        "stale workspace": Hostile(repeating, wrong, correct.OFF),
        "right first and wrong later": Hostile(counting(w, tile, 6), wrong, correct.LATER),
        "NaN writer": Hostile(
            changed("acc.to(OUT)", "(acc + float('nan')).to(OUT)"), wrong, correct.NOT_A_NUMBER
        ),
        "input mutation": Hostile(
            changed("    tl.store", "    tl.store(a + rm, tl.load(a + rm) + 1)\n    tl.store"),
            wrong,
            correct.INPUT_CHANGED,
        ),
        "write outside the output": Hostile(
            changed("tl.store(c + rm[:, None] * SN", "tl.store(c + 1 + rm[:, None] * SN"),
            wrong,
            correct.OVERRUN,
        ),
        "memory hog (device)": Hostile(memory, Failure.RUNTIME, correct.OUT_OF_MEMORY, gpu=True),
        "memory hog (host)": Hostile(hostile(HOG), Failure.COMPILE, correct.REFUSED),
        "abort": Hostile(in_worker("os.abort()"), Failure.RUNTIME, correct.DIED),
        "exit(0)": Hostile(in_worker("os._exit(0)"), Failure.RUNTIME, correct.EXITED),
        "garbage on the pipe": Hostile(hostile(GARBAGE), Failure.RUNTIME, correct.GARBAGE),
        "abort in the compiler": Hostile(
            hostile("import os\nos.abort()\n"), Failure.COMPILE, correct.DIED
        ),
        "exit(0) in the compiler": Hostile(
            hostile("import os\nos._exit(0)\n"), Failure.COMPILE, correct.EXITED
        ),
        "does not compile": Hostile(
            program("def kernel(a, b, c):\n    undefined(a)\n"), Failure.COMPILE, correct.REFUSED
        ),
        "out of resources": Hostile(
            replace(
                kernels.descriptor_matmul(w, (128, 256, 128)),
                kernels=(
                    replace(kernels.descriptor_matmul(w, (128, 256, 128)).kernels[0], stages=4),
                ),
            ),
            Failure.CONSTRAINTS,
            correct.OUT_OF_RESOURCES,
            gpu=True,
        ),
        "illegal address": Hostile(
            changed("tl.store(c + rm[:, None] * SN", "tl.store(c + (1 << 44) + rm[:, None] * SN"),
            Failure.RUNTIME,
            correct.DEVICE_LOST,
            gpu=True,
        ),
        "sticky error (trap)": Hostile(
            changed(*TRAP), Failure.RUNTIME, correct.DEVICE_LOST, gpu=True
        ),
        "endless loop": Hostile(changed(*ENDLESS), Failure.TIMEOUT, correct.RUN_DEADLINE, gpu=True),
    }
