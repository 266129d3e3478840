"""What measures, and for which hardware: from the words of a command to a machine. Runs nothing."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from autosched import landscape as landscapes
from autosched.landscape.landscape import Landscape
from autosched.spec.task import Task
from measure.doctor import Gpu, cuda_devices
from measure.record import RunRecord
from measure.service import NoDevice
from search_space import target as targets
from search_space.target import Target

#: The hardware data taken on a machine without a GPU.
DEFAULT_TARGET = "h200"
REPLAY = "replay"


class UnknownName(ValueError):
    """A name that nothing here goes by; the message names the nearest and all that exist."""


@dataclass(frozen=True)
class Machine:
    """What measures and what is tuned for. ``reason`` says in a sentence why these.

    ``device`` is "cuda:N", "model", "replay" or "replay:FILE". One that ``falls_back`` is a model
    for want of a GPU, and gives way to a landscape of the workload.
    """

    device: str
    target: Target
    reason: str
    falls_back: bool = False


def choose_machine(
    device: str,
    target: str | None,
    probe: Callable[[], tuple[Gpu, ...] | str] = cuda_devices,
    *,
    replays: bool = False,
) -> Machine:
    """Return what "auto", "cuda", "cuda:N" or "model" comes to on this machine.

    With ``replays`` also "replay" and "replay:FILE", FILE a landscape or the name of one that is
    shipped; and where there is no GPU, "auto" replays what is shipped (see ``landscape_for``).
    ``probe`` returns the GPUs, or why there are none. Raises NoDevice where a GPU is wanted and
    is not there, BadLandscape, StorageError and UnknownName.
    """
    if replays and (device == "replay" or device.startswith("replay:")):
        return _replaying(device, target)
    if device == "model":
        chosen = choose_target(target)
        return Machine("model", chosen, f"times come from a model of {chosen.name}, as asked")
    if device != "auto" and not re.fullmatch(r"cuda(:\d{1,3})?", device):
        known = ("auto", "cuda", "cuda:N", "model", *(("replay", "replay:FILE") * replays))
        raise unknown("device", device, known)
    gpus = probe()
    missing = gpus if isinstance(gpus, str) else "no CUDA device"
    if device == "auto" and (isinstance(gpus, str) or not gpus):
        chosen = choose_target(target)
        reason = f"{missing}: times come from a model of {chosen.name}"
        return Machine("model", chosen, reason, falls_back=replays)
    number = int(device.partition(":")[2] or 0)
    gpu = None if isinstance(gpus, str) else next((g for g in gpus if g.index == number), None)
    if gpu is None:
        count = 0 if isinstance(gpus, str) else len(gpus)
        fact = f"there are {count}, counted from 0" if count else missing
        raise NoDevice(f"device {device}: {fact}; --device model predicts times without a GPU")
    chosen = choose_target(target, gpu.name)
    return Machine(f"cuda:{number}", chosen, f"times are measured on {gpu.name}")


def choose_target(name: str | None, gpu_name: str | None = None) -> Target:
    """Return the target called ``name``; without a name the GPU's own, without a GPU h200.

    ``gpu_name`` is what the driver calls the GPU. Raises UnknownName, also for a GPU that no
    target describes.
    """
    if name is not None:
        if name not in targets.names():
            raise unknown("target", name, targets.names())
        return targets.load(name)
    if gpu_name is None:
        return targets.load(DEFAULT_TARGET)
    for known in map(targets.load, targets.names()):
        if gpu_name in known.device_names:
            return known
    raise UnknownName(
        f"no target describes {gpu_name!r}; name the nearest with --target: "
        f"{', '.join(targets.names())}"
    )


def _replaying(device: str, target: str | None) -> Machine:
    name = device.partition(":")[2]
    if not name:
        chosen = choose_target(target)
        return Machine(REPLAY, chosen, f"outcomes recorded on {chosen.name} are replayed")
    held = _loaded(name)
    if target not in (None, held.target.name):
        raise NoDevice(f"device {device}: it was recorded on {held.target.name}, not {target}")
    return Machine(device, held.target, _recorded(held))


def landscape_for(machine: Machine, task: Task) -> Landscape | None:
    """Return the landscape that gives the outcomes of ``task``; None where something measures.

    Raises NoDevice where one is wanted and there is none of the workload.
    """
    name = machine.device.partition(":")[2] if machine.device.startswith(f"{REPLAY}:") else ""
    if name:
        held = _loaded(name)
        if held.workload.key == task.workload.key:
            return held
        of = held.head.workload.label
        raise NoDevice(f"device {machine.device}: it is of {of}, not of {task.workload.label}")
    if machine.device != REPLAY and not machine.falls_back:
        return None
    found = _shipped(task.workload.key, machine.target.name)
    if found is None and machine.device == REPLAY:
        names = ", ".join(f"{n} ({_loaded(n).head.workload.label})" for n in landscapes.names())
        label = task.workload.label or task.id
        raise NoDevice(f"device replay: no landscape of {label} is shipped; there are {names}")
    return found


def landscape_of(start: RunRecord, task: Task) -> Landscape | None:
    """Return the landscape that the run that began with ``start`` searched; None if it did not.

    Raises NoDevice where it is not one that is shipped.
    """
    if start.device != REPLAY:
        return None
    found = _shipped(task.workload.key, start.target)
    if found is None:
        raise NoDevice("it searched a landscape that is not shipped")
    return found


def reasons(machine: Machine, tasks: Sequence[Task]) -> list[str]:
    """Return sentences on where the times of ``tasks`` come from. Raises as ``landscape_for``."""
    held = {task.id: landscape_for(machine, task) for task in tasks}
    found = [f"{name}: {_recorded(one)}" for name, one in held.items() if one is not None]
    measured = any(one is None for one in held.values())
    return ([machine.reason] if measured else []) + found


def _recorded(held: Landscape) -> str:
    head = held.head
    day = head.provenance.time[:10]
    where = f"on {head.gpu}" if head.gpu else f"from a model of {head.target}"
    return f"{len(held.points)} outcomes recorded {where}, {day}, are replayed: nothing is measured"


def _shipped(key: str, target: str) -> Landscape | None:
    for name in landscapes.names():
        held = _loaded(name)
        if (held.workload.key, held.target.name) == (key, target):
            return held
    return None


@lru_cache(maxsize=32)
def _loaded(name: str) -> Landscape:
    return landscapes.load(name if landscapes.shipped(name) else Path(name))


def unknown(what: str, name: str, known: Iterable[str]) -> UnknownName:
    """Return the error for a name of the kind ``what`` that is none of ``known``."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f", did you mean {near[0]}" if near else ""
    return UnknownName(f"{what} {name!r} is not known{hint}; known: {', '.join(names)}")
