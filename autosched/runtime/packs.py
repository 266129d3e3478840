"""Packed copies of constant tensors, made once and kept while they are right. Knows no workloads.

A pack belongs to the memory of the tensors that it was made of, not to the tensor objects: any
view that starts at the same place and lies the same way finds it. It is forgotten when the memory
is freed, when a tensor's version counter has moved (torch counts every change in place), and when
``invalidate`` is called, which is for changes that torch does not see: through ``.data``, by
another process or by a kernel that writes through a pointer.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch

#: Workspaces by name.
Packed = Mapping[str, torch.Tensor]
_Key = tuple[Hashable, ...]


@dataclass(frozen=True, eq=False)
class _Pack:
    """What was made, of which memory at which versions, and on which stream of a CUDA device."""

    storages: tuple[weakref.ref[torch.UntypedStorage], ...]
    versions: tuple[int, ...]
    tensors: Packed
    stream: torch.cuda.Stream | None = None
    made: torch.cuda.Event | None = None

    @property
    def bytes(self) -> int:
        return sum(t.untyped_storage().nbytes() for t in self.tensors.values())

    def is_of(self, tensors: Sequence[torch.Tensor], versions: tuple[int, ...]) -> bool:
        """Compare memory by identity: where some was freed, its address may be another's now."""
        same = (r() is t.untyped_storage() for r, t in zip(self.storages, tensors, strict=True))
        return versions == self.versions and all(same)


class Packs:
    """Packs of many tensors, safe to call from many threads.

    There is one for each tensor and layout, as long as the tensor lives: ``bytes`` is about the
    size of the constant tensors that were served.
    """

    def __init__(self) -> None:
        self._packs: dict[_Key, _Pack] = {}
        self._frozen: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """The device memory that packs hold."""
        return sum(pack.bytes for pack in list(self._packs.values()))

    def __len__(self) -> int:
        return len(self._packs)

    def get(
        self, layout: Hashable, tensors: Sequence[torch.Tensor], make: Callable[[], Packed]
    ) -> Packed:
        """Return what ``make`` makes of ``tensors``, which all lie on one device, or has made.

        ``layout`` tells apart what is made of the same tensors. What is returned may be read on
        the current stream. Made anew on every call: packs of inference tensors, which count no
        versions, unless they are frozen; and, inside a CUDA graph capture, packs of all that is
        not frozen, so that a replay follows its tensors.
        """
        versions = tuple(self._version(tensor) for tensor in tensors)
        capturing = _is_capturing(tensors[0].device)
        known = [v for v in versions if v is not None]
        if len(known) < len(versions) or (capturing and not all(map(self._is_frozen, tensors))):
            return make()
        key = (layout, *map(_place, tensors))
        with self._lock:
            pack = self._packs.get(key)
            if pack is None or not pack.is_of(tensors, tuple(known)):
                if capturing:
                    return make()  # memory of the graph's own, of no use outside
                pack = self._made(key, tensors, tuple(known), make)
            if not capturing:
                _wait(pack)
        return pack.tensors

    def invalidate(self, tensor: torch.Tensor | None = None) -> None:
        """Forget the packs of the memory that ``tensor`` lies in, or all packs."""
        storage = None if tensor is None else tensor.untyped_storage()
        for key, pack in list(self._packs.items()):
            if storage is None or any(ref() is storage for ref in pack.storages):
                self._forget(key, pack)

    def freeze(self, tensor: torch.Tensor) -> None:
        """Take the caller's word that ``tensor`` does not change before ``invalidate``."""
        storage = tensor.untyped_storage()
        thaw = partial(_drop, weakref.ref(self), "_frozen", storage._cdata)
        self._frozen[storage._cdata] = weakref.ref(storage, thaw)

    def _made(
        self,
        key: _Key,
        tensors: Sequence[torch.Tensor],
        versions: tuple[int, ...],
        make: Callable[[], Packed],
    ) -> _Pack:
        self._packs.pop(key, None)  # before its successor takes memory
        storages = (tensor.untyped_storage() for tensor in tensors)
        freed = partial(_drop, weakref.ref(self), "_packs", key)
        held = tuple(weakref.ref(storage, freed) for storage in storages)
        pack = _Pack(held, versions, make(), *_recorded(tensors[0].device))
        self._packs[key] = pack
        return pack

    def _forget(self, key: _Key, pack: _Pack) -> None:
        if self._packs.get(key) is pack:
            self._packs.pop(key, None)

    def _version(self, tensor: torch.Tensor) -> int | None:
        if not tensor.is_inference():
            return tensor._version
        return 0 if self._is_frozen(tensor) else None

    def _is_frozen(self, tensor: torch.Tensor) -> bool:
        storage = tensor.untyped_storage()
        ref = self._frozen.get(storage._cdata)
        return ref is not None and ref() is storage


def _drop(
    owner: weakref.ref[Packs], held: str, key: Hashable, ref: weakref.ref[torch.UntypedStorage]
) -> None:
    """Forget what was made of memory that is freed, and nothing that came in its place.

    The interpreter may call this anywhere, even inside ``get``, so it takes no lock.
    """
    packs = owner()
    if packs is None:
        return
    table = getattr(packs, held)
    found = table.get(key)
    if found is ref or (isinstance(found, _Pack) and any(r is ref for r in found.storages)):
        table.pop(key, None)


def _place(tensor: torch.Tensor) -> _Key:
    """Where a tensor lies, and how. Its dtype is the layout's affair, and so is its shape."""
    return (
        tensor.untyped_storage()._cdata,
        tensor.data_ptr(),
        tuple(tensor.shape),
        tuple(tensor.stride()),
        tensor.dtype,
        tensor.device,
    )


def _is_capturing(device: torch.device) -> bool:
    if device.type != "cuda":
        return False
    with torch.cuda.device(device):
        return torch.cuda.is_current_stream_capturing()


def _recorded(device: torch.device) -> tuple[torch.cuda.Stream | None, torch.cuda.Event | None]:
    """Return the current stream of a CUDA device and an event behind all that it has to do."""
    if device.type != "cuda":
        return None, None
    stream = torch.cuda.current_stream(device)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch leaves it unannotated
    event.record(stream)
    return stream, event


def _wait(pack: _Pack) -> None:
    """Have the current stream wait until a pack is made, and its memory for the stream's work."""
    if pack.stream is None or pack.made is None:
        return
    current = torch.cuda.current_stream(pack.stream.device)
    if current == pack.stream:
        return
    for tensor in pack.tensors.values():
        tensor.record_stream(current)
    current.wait_event(pack.made)
