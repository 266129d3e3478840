"""What a folder says of itself: plain data over workloads, kernels and files. Writes no file."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autosched import __version__
from autosched.export.selection import Selected
from autosched.export.shipped.autosched_manifest import FORM, digest_of
from measure import cuda
from measure.compiler import Entry
from measure.record import Success
from search_space.program import Kernel
from search_space.target import Target

#: A workload's name is cut at this length.
LONGEST_NAME = 100
#: Names that the module of functions uses itself.
_TAKEN = ("kernels", "torch", "cache", "autosched_kernels", "autosched_manifest")


@dataclass(frozen=True)
class Compiled:
    """A workload with what its kernels compiled to, in order, and the name that it goes by."""

    name: str
    selected: Selected
    entries: tuple[Entry, ...]

    @property
    def kernels(self) -> tuple[tuple[Kernel, Entry], ...]:
        """Each kernel beside its binary."""
        return tuple(zip(self.selected.program.kernels, self.entries, strict=True))


def manifest(
    target: Target,
    workloads: Sequence[Compiled],
    binaries: Mapping[bytes, str],
    files: Mapping[str, str],
) -> dict[str, Any]:
    """Return the manifest; ``binaries`` names the file of each, ``files`` the SHA-256 of each."""
    data = {
        "form": FORM,
        "autosched": __version__,
        "target": {
            "name": target.name,
            "arch": target.arch,
            "gpus": list(target.device_names),
            "multiprocessors": target.multiprocessors,
            "shared_bytes": target.shared_memory_per_block_bytes,
        },
        "files": dict(sorted(files.items())),
        "workloads": [_workload(one, binaries) for one in workloads],
    }
    return {"sha256": digest_of(data)} | data


def names(selected: Sequence[Selected]) -> list[str]:
    """Return a name for each workload, no two alike, that Python and C take as one.

    It is made of the label; where labels give one name, of the key as well.
    """
    plain = [_plain(one.workload.label) for one in selected]
    return [
        name if plain.count(name) == 1 and name != "workload" else f"{name}_{one.workload.key}"
        for name, one in zip(plain, selected, strict=True)
    ]


def _plain(label: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")[:LONGEST_NAME].rstrip("_")
    if not name:
        return "workload"
    clashes = not name[0].isalpha() or keyword.iskeyword(name) or name in _TAKEN
    return f"workload_{name}" if clashes else name


def _workload(one: Compiled, binaries: Mapping[bytes, str]) -> dict[str, Any]:
    workload, program = one.selected.workload, one.selected.program
    return {
        "name": one.name,
        "key": workload.key,
        "label": workload.label,
        "text": workload.canonical,
        "program": program.fingerprint,
        "buffers": [asdict(buffer) for buffer in program.buffers],
        "kernels": [_kernel(k, entry, binaries[entry.cubin]) for k, entry in one.kernels],
        "evidence": _evidence(one.selected),
    }


def _kernel(kernel: Kernel, entry: Entry, file: str) -> dict[str, Any]:
    return {
        "file": file,
        "function": entry.name,
        "grid": list(kernel.grid),
        "threads": entry.threads,
        "shared_bytes": entry.shared_bytes,
        "prepares": kernel.prepares,
        "arguments": [_argument(argument) for argument in entry.arguments],
    }


def _argument(argument: cuda.Argument) -> dict[str, Any]:
    fields = asdict(argument)
    buffer = fields.pop("buffer")
    return {"buffer": buffer, "box": fields} if fields else {"buffer": buffer}


def _evidence(selected: Selected) -> dict[str, Any]:
    """Return what was measured of a record, and on what grounds its output is held to be right."""
    record = selected.record
    evidence, provenance = record.evidence, record.provenance
    timing = record.measurement.timing if isinstance(record.measurement, Success) else None
    return {
        "latency_us": timing and timing.latency_us,
        "low_us": timing and timing.low_us,
        "high_us": timing and timing.high_us,
        "ratio": list(selected.ratio) if selected.ratio else None,
        "gpu": record.gpu,
        "max_error": evidence and evidence.max_error,
        "rtol": evidence and evidence.rtol,
        "atol": evidence and evidence.atol,
        "seeds": list(evidence.seeds) if evidence else [],
        "reference": evidence and evidence.reference,
        "constant": list(evidence.constant) if evidence else [],
        "run": record.run,
        "trial": record.trial,
        "rendering_version": record.rendering_version,
        "time": provenance.time,
        "versions": {
            "autosched": provenance.autosched,
            "torch": provenance.torch,
            "triton": provenance.triton,
            "driver": provenance.driver,
        },
    }
