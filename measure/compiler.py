"""One kernel's text, compiled by Triton. Knows nothing of devices at hand and of no tensor.

The builder and the launcher both come through here with the same text, signature, attributes and
options, so that what the one compiles the other finds in Triton's cache on disk.
"""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from measure import compiled_facts, cuda
from measure.job import TritonTarget
from measure.measurement import CompiledFacts
from search_space.program import Buffer, DescriptorArgument, Kernel, PointerArgument, Program

#: How Triton spells the element types of ``search_space.dtype``.
TRITON_NAMES: dict[str, str] = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "float8_e4m3": "fp8e4nv",
    "int8": "i8",
    "int32": "i32",
}
#: The alignment of an address that Triton's own specialisation tells the compiler of, and the most
#: that a load makes use of.
_WIDEST = 16


class BadKernel(ValueError):
    """A kernel whose text and launch plan do not belong together."""


def function(kernel: Kernel) -> Any:
    """Make the Triton function from the kernel's text.

    The text is registered under a file name made of its hash, so that Triton's cache key and the
    debug information are the same in every process. Raises SyntaxError, or BadKernel.
    """
    digest = hashlib.sha256(kernel.source.encode()).hexdigest()[:16]
    file_name = f"<autosched-{digest}>"
    lines = kernel.source.splitlines(keepends=True)
    linecache.cache[file_name] = (len(kernel.source), None, lines, file_name)
    namespace: dict[str, Any] = {"__name__": f"autosched_{digest}"}
    # Kernel texts come from our own renderer, never from a log or a file.
    exec(compile(kernel.source, file_name, "exec"), namespace)  # noqa: S102
    made = namespace.get(kernel.name)
    if made is None:
        raise BadKernel(f"the text defines no function {kernel.name!r}")
    if len(made.arg_names) != len(kernel.arguments):
        raise BadKernel(
            f"{kernel.name} takes {len(made.arg_names)} parameters,"
            f" the launch plan has {len(kernel.arguments)}"
        )
    if not interpreting():
        del linecache.cache[file_name]
    return made


def interpreting() -> bool:
    """Whether Triton runs kernels in its interpreter (TRITON_INTERPRET in the environment)."""
    return bool(triton.knobs.runtime.interpret)


def argument_type(argument: PointerArgument | DescriptorArgument, buffer: Buffer) -> str:
    """Return the type of an argument as Triton's own binder spells it."""
    name = TRITON_NAMES[buffer.dtype]
    if isinstance(argument, PointerArgument):
        return f"*{name}"
    return f"tensordesc<{name}{list(argument.block)}>"


def source_of(made: Any, kernel: Kernel, buffers: Mapping[str, Buffer]) -> ASTSource:
    """Return what Triton compiles: the function with its argument types and alignments.

    A pointer gets the attribute by which Triton knows its alignment in bytes; without it loads are
    of single elements, and none is an asynchronous copy. Triton's own launch only ever says 16.
    Descriptors carry no attribute.
    """
    types = [argument_type(a, buffers[a.buffer]) for a in kernel.arguments]
    aligned = {
        (index,): [["tt.divisibility", min(buffers[a.buffer].alignment_bytes, _WIDEST)]]
        for index, a in enumerate(kernel.arguments)
        if isinstance(a, PointerArgument)
    }
    signature = dict(zip(made.arg_names, types, strict=True))
    return ASTSource(made, signature, constexprs={}, attrs=aligned)


def identity(program: Program, kernel: Kernel) -> tuple[Any, ...]:
    """Return all that what is compiled depends on, beside the target: equal means the same binary.

    Extents of descriptors are not in it: they come with the launch.
    """
    buffers = {buffer.name: buffer for buffer in program.buffers}
    arguments = [
        (argument_type(a, buffers[a.buffer]), min(buffers[a.buffer].alignment_bytes, _WIDEST))
        for a in kernel.arguments
    ]
    return (kernel.source, kernel.name, tuple(arguments), kernel.warps, kernel.stages)


def compile_kernel(program: Program, kernel: Kernel, triton_target: TritonTarget) -> Any:
    """Return Triton's CompiledKernel for ``kernel``. Needs no GPU.

    Raises whatever Triton raises on a kernel it cannot compile.
    """
    buffers = {buffer.name: buffer for buffer in program.buffers}
    source = source_of(function(kernel), kernel, buffers)
    options = {"num_warps": kernel.warps, "num_stages": kernel.stages}
    return triton.compile(source, target=GPUTarget(*triton_target), options=options)


#: CUDA's number of an element type where Triton's differs from it (CUtensorMapDataType).
_ELEMENT_TYPES = {8: 10, 9: 8, 10: 9}


@dataclass(frozen=True, slots=True)
class Entry:
    """What a compiled kernel asks of whoever starts it on CUDA: the binary, the function's name,
    threads and dynamic shared memory of a block, and how its arguments are laid out."""

    cubin: bytes
    name: str
    threads: int
    shared_bytes: int
    arguments: tuple[cuda.Argument, ...]


def entry_of(compiled: Any, kernel: Kernel) -> Entry:
    """Return how a kernel compiled for CUDA is started; raises BadKernel on one that needs more
    than a plain launch gives: scratch, clusters, or a start of its own kind."""
    metadata = compiled.metadata
    for what in ("global_scratch_size", "profile_scratch_size", "launch_pdl"):
        if getattr(metadata, what, 0):
            raise BadKernel(f"{kernel.name}: a launch with {what} is not made here")
    if getattr(metadata, "num_ctas", 1) != 1 or getattr(metadata, "launch_cooperative_grid", 0):
        raise BadKernel(f"{kernel.name}: clusters and cooperative grids are not started here")
    warps, _, shared_bytes = compiled.packed_metadata
    maps = iter(getattr(metadata, "tensordesc_meta", None) or ())
    arguments = tuple(_laid_out(argument, maps) for argument in kernel.arguments)
    threads = warps * metadata.target.warp_size
    return Entry(compiled.asm["cubin"], metadata.name, threads, shared_bytes, arguments)


def _laid_out(argument: PointerArgument | DescriptorArgument, maps: Any) -> cuda.Argument:
    if isinstance(argument, PointerArgument):
        return cuda.Address(argument.buffer)
    how = next(maps, None)
    if how is None:
        raise BadKernel(f"{argument.buffer}: the compiler made no tensor map of its descriptor")
    element_type = int(how["elem_type"])
    return cuda.Box(
        argument.buffer,
        argument.shape,
        argument.strides,
        tuple(how["block_size"]),
        int(how["elem_size"]),
        _ELEMENT_TYPES.get(element_type, element_type),
        int(how["swizzle"]),
    )


def facts_of(compiled: Any) -> CompiledFacts:
    """Return what the kernel uses, from its metadata and its binary."""
    binary: bytes = compiled.kernel
    shared = int(compiled.metadata.shared)
    if "cubin" not in compiled.asm:
        registers, stack = compiled_facts.amd_registers_and_stack(compiled.asm.get("amdgcn", ""))
        return CompiledFacts(registers, stack, shared, len(binary))
    path = next(path for name, path in compiled.metadata_group.items() if name.endswith(".cubin"))
    registers, stack = compiled_facts.registers_and_stack(cuobjdump(), str(path))
    counts = compiled_facts.instruction_counts(binary)
    return CompiledFacts(registers, stack, shared, len(binary), counts)


def cuobjdump() -> str | None:
    """Return the path of the cuobjdump that Triton ships or finds, or None."""
    try:
        return str(triton.knobs.nvidia.cuobjdump.path)
    except RuntimeError:
        return None


def texts_of(compiled: Any) -> dict[str, str]:
    """Return the text of each level of the compiler, by name, and the disassembly if it can."""
    texts = {level: text for level, text in compiled.asm.items() if isinstance(text, str)}
    texts.pop("source", None)
    if "cubin" in compiled.asm and cuobjdump() is not None:
        texts["sass"] = str(compiled.asm["sass"])
    return texts
