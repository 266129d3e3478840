"""Compile what was selected and write the folder. Needs no GPU."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from autosched.export.c_text import example_text, header_text
from autosched.export.manifest import Compiled, manifest, names
from autosched.export.python_text import python_text
from autosched.export.selection import Refused, Selected, select
from autosched.export.shipped.autosched_manifest import DRIVER, MANIFEST
from measure.builder import BuilderPool
from measure.compiler import BadKernel, Entry, compile_kernel, entry_of
from measure.log import LogContents
from measure.measurement import Failed
from search_space.program import Program
from search_space.target import Target
from search_space.workload import Workload

#: Seconds that one program may take to compile.
TIMEOUT_S = 120.0
#: Where files lie that go into the folder as they are, and which of them are Python.
SHIPPED = "autosched.export.shipped"
LOADERS = ("autosched_kernels.py", "autosched_manifest.py")


class BadFolder(ValueError):
    """A folder that cannot be written; the message says why and what to do."""


class NothingToExport(LookupError):
    """No workload of the log can be exported; the message says why each cannot."""


@dataclass(frozen=True)
class Exported:
    """What was written, and what was left out and why."""

    folder: Path
    workloads: tuple[Compiled, ...]
    refused: tuple[Refused, ...]
    bytes: int


def export(
    contents: LogContents,
    target: Target,
    folder: Path,
    *,
    only: Sequence[str] = (),
    workloads: Iterable[Workload] = (),
    replace: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Exported:
    """Write the kernels of a log to ``folder``, which appears whole or not at all.

    ``only`` names workloads by label or key, ``workloads`` are stated beside those that the log
    states. ``replace`` allows a folder that holds an export.
    ``tell`` is told of each workload that is compiled. Raises NoSuchWorkload, BadFolder,
    NothingToExport and OSError.
    """
    _check_target(target)
    _check_folder(folder, replace=replace)
    found = select(contents, target, only, workloads)
    refused = [one for one in found if isinstance(one, Refused)]
    chosen = [one for one in found if isinstance(one, Selected)]
    built: list[tuple[Selected, tuple[Entry, ...]]] = []
    with BuilderPool(1, TIMEOUT_S) as pool:
        for one in chosen:
            tell(one.workload.label or one.workload.key)
            made = _compiled(one.program, target, pool)
            if isinstance(made, str):
                refused.append(Refused(one.workload.key, one.workload.label, made))
            else:
                built.append((one, made))
    if not built:
        reasons = "".join(f"\n  {r.label or r.key}: {r.reason}" for r in refused)
        raise NothingToExport(f"no workload can be exported for {target.name}{reasons}")
    called = names([one for one, _ in built])
    named = [Compiled(n, one, made) for n, (one, made) in zip(called, built, strict=True)]
    files = _files(target, named)
    _write(folder, files)
    return Exported(folder, tuple(named), tuple(refused), sum(map(len, files.values())))


def _compiled(program: Program, target: Target, pool: BuilderPool) -> tuple[Entry, ...] | str:
    """Compile in a process of its own, since compilers abort and hang; then fetch what it left in
    Triton's cache. Returns the binaries, or why there are none."""
    built = pool.build(program, target.triton_target)
    if isinstance(built, Failed):
        return f"it does not build: {built.detail}"
    try:
        return tuple(
            entry_of(compile_kernel(program, kernel, target.triton_target), kernel)
            for kernel in program.kernels
        )
    except BadKernel as error:
        return str(error)


def _files(target: Target, workloads: Sequence[Compiled]) -> dict[str, bytes]:
    """Return the content of every file of the folder by name, the manifest last."""
    binaries = _binaries(workloads)
    files = {name: binary for binary, name in binaries.items()}
    files |= {
        **{name: _source(SHIPPED, name) for name in LOADERS},
        DRIVER: _source("measure", "cuda.py"),
        "kernels.py": python_text(target, workloads).encode(),
        "autosched.h": header_text(target, workloads, binaries).encode(),
        "example.c": example_text().encode(),
    }
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    data = manifest(target, workloads, binaries, digests)
    text = json.dumps(data, indent=1, allow_nan=False)
    return files | {MANIFEST: f"{text}\n".encode()}


def _binaries(workloads: Sequence[Compiled]) -> Mapping[bytes, str]:
    """Return a file name for each binary; equal ones share a file."""
    made: dict[bytes, str] = {}
    for one in workloads:
        for entry in one.entries:
            digest = hashlib.sha256(entry.cubin).hexdigest()[:16]
            made.setdefault(entry.cubin, f"{entry.name}-{digest}.cubin")
    return made


def _source(package: str, name: str) -> bytes:
    return (resources.files(package) / name).read_bytes()


def _check_target(target: Target) -> None:
    if target.backend != "cuda" or not isinstance(target.arch, int):
        raise BadFolder(f"kernels are exported for CUDA, and {target.name} is {target.backend}")


def _check_folder(folder: Path, *, replace: bool) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise BadFolder(f"{folder} is a file; name a folder")
    inside = list(folder.iterdir())
    if not inside:
        return
    if not (folder / MANIFEST).is_file():
        raise BadFolder(f"{folder} holds other things than an export; name a new folder")
    if not replace:
        raise BadFolder(f"{folder} holds an export already; --replace writes it anew")


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        fresh.chmod(0o755)
        for name, content in files.items():
            (fresh / name).write_bytes(content)
        if folder.exists():
            earlier = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
            folder.rename(earlier / folder.name)
            fresh.rename(folder)
            shutil.rmtree(earlier)
        else:
            fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
