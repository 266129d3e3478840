"""The module of an exported folder that has one function a workload. Knows no tensors."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from autosched import __version__
from autosched.export.manifest import Compiled
from search_space.program import Buffer
from search_space.target import Target

_HEAD = '''\
"""Kernels for {gpus}, one function each. Written by autosched {version}; do not edit.

The folder is checked, and its kernels are loaded, by the first call on each device. Calls raise
the errors of ``autosched_kernels``: BadManifest, WrongGpu and WrongTensor.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch

if __package__:
    from . import autosched_kernels
else:
    import autosched_kernels


def kernels(device: int | None = None) -> autosched_kernels.Kernels:
    """Return the folder's kernels, checked and loaded on a device, by default the current one."""
    if device is None and torch.cuda.is_available():
        device = torch.cuda.current_device()
    return _loaded(device)


@cache
def _loaded(device: int | None) -> autosched_kernels.Kernels:
    return autosched_kernels.load(Path(__file__).parent, device)
'''


def python_text(target: Target, workloads: Sequence[Compiled]) -> str:
    """Return the text of ``kernels.py``."""
    head = _HEAD.format(gpus=" or ".join(target.device_names), version=__version__)
    return "\n\n".join((head, *map(_function, workloads)))


def _function(one: Compiled) -> str:
    program = one.selected.program
    names = _parameters([buffer.name for buffer in program.inputs])
    parameters = "".join(f"    {name}: torch.Tensor,\n" for name in names)
    prepared = bool(program.prepared)
    extra = "    prepared: autosched_kernels.Prepared | None = None,\n" if prepared else ""
    handed = ", ".join((*names, "out=out", *(["prepared=prepared"] if prepared else [])))
    return (
        f"def {one.name}(\n{parameters}    *,\n    out: torch.Tensor | None = None,\n{extra}"
        f") -> torch.Tensor:\n{_docstring(one, names)}"
        f'    return kernels({names[0]}.device.index)["{one.name}"]({handed})\n'
    )


def _parameters(names: Sequence[str]) -> list[str]:
    """Return names of parameters: those of the inputs, but for what the module uses itself."""
    taken = ("out", "prepared", "kernels", "torch", "autosched_kernels", "cache", "Path")
    return [f"{name}_" if name in taken else name for name in names]


def _docstring(one: Compiled, names: Sequence[str]) -> str:
    program, record = one.selected.program, one.selected.record
    title = _safe(one.selected.workload.label or one.selected.workload.key)
    lines = textwrap.wrap(title, 92)
    lines += ["", *(_tensor(name, b) for name, b in zip(names, program.inputs, strict=True))]
    lines += ["", f"Returns {_tensor(program.output.name, program.output)}"]
    measured = f"Measured: {record.latency_us:.4g} us on {_safe(record.gpu)}"
    if record.evidence is not None:
        measured += f"; at most {record.evidence.max_error:.2g} of the tolerance off"
    lines += ["", f"{measured}. Workload {one.selected.workload.key}."]
    if program.prepared:
        lines += [
            "",
            f"``prepared``: what kernels()[{one.name!r}].prepare({', '.join(program.prepared)})",
            "returned; without it the copies that it holds are made by every call.",
        ]
    body = "".join(f"    {line}\n" if line else "\n" for line in lines)
    return f'    """{body[4:]}    """\n'


def _tensor(name: str, buffer: Buffer) -> str:
    kind = "constant " if buffer.constant else ""
    return (
        f"{name}: {kind}{buffer.dtype} {list(buffer.shape)}, strides {list(buffer.strides)}, "
        f"at a multiple of {buffer.alignment_bytes} bytes"
    )


def _safe(text: str) -> str:
    """Return text of a log such that it cannot end the docstring that it stands in."""
    return "".join(c if c.isascii() and c.isprintable() and c not in '\\"' else "?" for c in text)
