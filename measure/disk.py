"""The calls by which a log touches the disk, in one place, so that tests can make any of them fail.

Knows nothing of records.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

#: Filesystems on which appends of several hosts tear, by the names that Linux gives them.
NETWORK_FILESYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs"})


class StorageError(OSError):
    """The disk refused: full, read-only, locked, missing. Names the path and the reason."""

    def __init__(self, path: Path, wish: str, cause: OSError | str) -> None:
        if isinstance(cause, OSError):
            code = errno.errorcode.get(cause.errno or 0, "unknown error")
            reason = f"{cause.strerror or cause} ({code})"
        else:
            reason = cause
        super().__init__(f"{path}: {wish}: {reason}")
        self.path = path
        self.errno = cause.errno if isinstance(cause, OSError) else None

    def __str__(self) -> str:
        return str(self.args[0])


class Disk:
    """The real disk. Everything raises OSError."""

    def open(self, path: Path) -> int:
        """Open a file for appending and reading, made if it is missing."""
        return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, descriptor: int, data: bytes) -> int:
        """Append ``data`` in one call and return how many bytes went."""
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Wait until what was written is on the disk."""
        os.fsync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        os.ftruncate(descriptor, size)

    def size(self, descriptor: int) -> int:
        """Return the size of the file in bytes."""
        return os.fstat(descriptor).st_size

    def read(self, descriptor: int, count: int, offset: int) -> bytes:
        """Read up to ``count`` bytes at ``offset``."""
        return os.pread(descriptor, count, offset)


def filesystem(path: Path, mounts: str | None = None) -> str:
    """Return the type of the filesystem that holds ``path``, or "" where it cannot be told.

    ``mounts`` is the text of /proc/self/mounts.
    """
    try:
        text = Path("/proc/self/mounts").read_text() if mounts is None else mounts
    except OSError:
        return ""
    place, found = str(path.resolve()), ("", "")
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(found[0]):
            found = (point, fields[2])
    return found[1]
