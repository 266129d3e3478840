"""The C of an exported folder: tables and functions in a header, and an example of their use.

The header needs CUDA's driver API alone. Where there is no ``cuda.h`` it declares what it uses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources

from autosched import __version__
from autosched.export.manifest import Compiled
from measure import cuda
from measure.compiler import Entry
from measure.tensor import storage_elements
from search_space.dtype import size_bytes
from search_space.program import Buffer, Kernel
from search_space.target import Target

#: Parameters that a kernel has beside those of its arguments: two null addresses for scratch.
_SCRATCH = 2
_FNV_BASIS, _FNV_PRIME, _WORD = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def example_text() -> str:
    """Return the text of ``example.c``."""
    return _text("example.c")


def header_text(
    target: Target, workloads: Sequence[Compiled], binaries: Mapping[bytes, str]
) -> str:
    """Return the text of ``autosched.h``; ``binaries`` names the file of each binary."""
    entries = [entry for one in workloads for entry in one.entries]
    arch = int(target.arch)
    values = {
        "VERSION": __version__,
        "GPUS": ", ".join(json.dumps(name) for name in target.device_names),
        "GPU_COUNT": len(target.device_names),
        "MAJOR": arch // 10,
        "MINOR": arch % 10,
        "MOST_PARAMETERS": max(map(_parameters, entries), default=_SCRATCH),
        "MOST_ARGUMENTS": max((len(entry.arguments) for entry in entries), default=1),
        "MOST_KERNELS": max((len(one.entries) for one in workloads), default=1),
        "TABLES": "\n".join(_tables(one, binaries) for one in workloads),
        "WORKLOADS": "\n".join(_workload(one) for one in workloads),
    }
    text = _text("autosched.h")
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def hash_of(data: bytes) -> int:
    """Return the 64-bit FNV-1a hash of ``data``, by which C finds damage."""
    made = _FNV_BASIS
    for byte in data:
        made = ((made ^ byte) * _FNV_PRIME) & _WORD
    return made


def _text(name: str) -> str:
    return (resources.files("autosched.export.shipped") / name).read_text("utf-8")


def _parameters(entry: Entry) -> int:
    return len(cuda.Layout(entry.arguments).offsets)


def _tables(one: Compiled, binaries: Mapping[bytes, str]) -> str:
    numbers = {buffer.name: n for n, buffer in enumerate(one.selected.program.buffers)}
    lines = [f"/* {one.selected.workload.key} */"]
    lines += [f"static const autosched_buffer autosched_buffers_{one.name}[] = {{"]
    lines += [f"    {_buffer(buffer)}," for buffer in one.selected.program.buffers]
    lines += ["};"]
    for n, entry in enumerate(one.entries):
        lines += [f"static const autosched_argument autosched_arguments_{one.name}_{n}[] = {{"]
        lines += [f"    {_argument(argument, numbers)}," for argument in entry.arguments]
        lines += ["};"]
    lines += [f"static const autosched_kernel autosched_kernels_{one.name}[] = {{"]
    for n, (kernel, entry) in enumerate(one.kernels):
        lines += [f"    {_kernel(kernel, entry, binaries[entry.cubin])},"]
        lines[-1] = lines[-1].replace("@ARGUMENTS@", f"autosched_arguments_{one.name}_{n}")
    return "\n".join([*lines, "};"])


def _buffer(buffer: Buffer) -> str:
    role = f"AUTOSCHED_{buffer.role.upper()}"
    elements = storage_elements(buffer)
    fields = (
        f'"{buffer.name}", "{buffer.dtype}", {role}, {elements * size_bytes(buffer.dtype)}ull',
        f"{size_bytes(buffer.dtype)}, {buffer.alignment_bytes}",
        f"{int(buffer.zeroed)}, {int(buffer.kept_zero)}",
    )
    return f"{{{', '.join(fields)}}}"


def _argument(argument: cuda.Argument, numbers: Mapping[str, int]) -> str:
    number = numbers[argument.buffer]
    if not isinstance(argument, cuda.Box):
        return f"{{{number}, 0, 0, 0, 0, {{0}}, {{0}}, {{0}}}}"
    how = f"{argument.element_type}, {argument.element_bytes}, {argument.swizzle}"
    shape, strides, block = (
        f"{{{', '.join(map(str, values))}}}"
        for values in (argument.shape, argument.strides, argument.block)
    )
    return f"{{{number}, {len(argument.shape)}, {how}, {shape}, {strides}, {block}}}"


def _kernel(kernel: Kernel, entry: Entry, file: str) -> str:
    grid = ", ".join(map(str, kernel.grid))
    return (
        f'{{"{file}", "{entry.name}", {len(entry.cubin)}ull, {hash_of(entry.cubin):#018x}ull,\n'
        f"     {{{grid}}}, {entry.threads}, {entry.shared_bytes}, {int(kernel.prepares)}, "
        f"{len(entry.arguments)}, @ARGUMENTS@}}"
    )


def _workload(one: Compiled) -> str:
    program = one.selected.program
    return (
        f'    {{"{one.name}", "{one.selected.workload.key}", {len(program.buffers)}, '
        f"autosched_buffers_{one.name},\n     {len(one.entries)}, autosched_kernels_{one.name}}},"
    )
