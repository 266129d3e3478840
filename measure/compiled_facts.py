"""What a compiled kernel uses, read off its binary. Knows nothing of how it was compiled.

Disassembling costs as much as compiling, so opcodes are counted by their encoding: on sm_70 and
later an instruction is 16 bytes, and the low 9 bits of its first word name the operation. The
table was read off ``nvdisasm`` output for sm_80, sm_90 and sm_100, and a test holds it to that.
"""

from __future__ import annotations

import re
import struct
import subprocess
from collections import Counter
from collections.abc import Sequence

from measure.measurement import CompiledFacts

#: The operation in the low 9 bits of an instruction's first word.
OPCODES: dict[int, str] = {
    0x1F0: "HGMMA",
    0x1F1: "IGMMA",
    0x1F3: "QGMMA",
    0x03C: "HMMA",
    0x037: "IMMA",
    0x1B4: "UTMALDG",
    0x1B5: "UTMASTG",
    0x1AE: "LDGSTS",
    0x181: "LDG",
    0x186: "STG",
    0x184: "LDS",
    0x188: "STS",
    0x03B: "LDSM",
    0x044: "STSM",
    0x183: "LDL",
    0x187: "STL",
    0x11D: "BAR",
}

_INSTRUCTION_BYTES = 16
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+)")


def instruction_counts(cubin: bytes) -> dict[str, int]:
    """Count the opcodes of interest in every code section of a CUDA binary (64-bit ELF)."""
    counts: Counter[int] = Counter()
    for name, content in _sections(cubin):
        if name.startswith(".text."):
            words = struct.unpack(f"<{len(content) // 8}Q", content[: len(content) // 8 * 8])
            counts.update(word & 0x1FF for word in words[::2])
    return {name: counts[code] for code, name in OPCODES.items() if counts[code]}


def _sections(elf: bytes) -> list[tuple[str, bytes]]:
    """Return name and content of the sections of a little-endian 64-bit ELF file."""
    if elf[:6] != b"\x7fELF\x02\x01":
        return []
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [
        struct.unpack_from("<IIQQQQ", elf, table + index * entry_bytes) for index in range(count)
    ]
    names_offset = headers[names_index][4]
    found = []
    for name, _, _, _, offset, size in headers:
        start = names_offset + name
        found.append((elf[start : elf.index(b"\0", start)].decode(), elf[offset : offset + size]))
    return found


def registers_and_stack(cuobjdump: str | None, path: str) -> tuple[int, int]:
    """Return registers per thread and stack bytes of the binary at ``path``.

    Zeros where there is no ``cuobjdump``, or it does not understand the file.
    """
    if cuobjdump is None:
        return 0, 0
    command = [cuobjdump, "-res-usage", path]
    try:
        text = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0, 0
    found = [(int(registers), int(stack)) for registers, stack in _USAGE.findall(text)]
    return max((r for r, _ in found), default=0), max((s for _, s in found), default=0)


def amd_registers_and_stack(assembly: str) -> tuple[int, int]:
    """Return vector registers per lane and private bytes, from the metadata of AMD assembly."""
    registers = re.search(r"\.vgpr_count:\s+(\d+)", assembly)
    stack = re.search(r"\.private_segment_fixed_size: (\d+)", assembly)
    return int(registers[1]) if registers else 0, int(stack[1]) if stack else 0


def combine(facts: Sequence[CompiledFacts]) -> CompiledFacts:
    """Join the facts of kernels: the largest of what is held, the sum of what is counted."""
    counts: Counter[str] = Counter()
    for fact in facts:
        counts.update(fact.instructions)
    return CompiledFacts(
        max(f.registers for f in facts),
        max(f.stack_bytes for f in facts),
        max(f.shared_bytes for f in facts),
        sum(f.binary_bytes for f in facts),
        dict(counts),
    )
