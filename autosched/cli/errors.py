"""Which exit code and which sentence an exception comes to. Knows no command."""

from __future__ import annotations

import errno
import os

import filelock

from autosched.cli.exit_code import ExitCode
from measure.disk import StorageError

#: What the operating system says when storage, and not the program, is at fault.
STORAGE_ERRORS = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EIO,
        errno.EISDIR,
        errno.ENOENT,
        errno.ENOSPC,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
    }
)


def verdict(error: BaseException) -> tuple[ExitCode, str]:
    """Return the code and the words for an error; anything unforeseen is a fault of ours."""
    if isinstance(error, filelock.Timeout):
        return ExitCode.STORAGE, f"{error.lock_file} is locked by another process"
    if isinstance(error, StorageError):
        return ExitCode.STORAGE, str(error)
    if isinstance(error, OSError) and error.errno in STORAGE_ERRORS:
        return ExitCode.STORAGE, _storage_sentence(error)
    for kind, code in _expected():
        if isinstance(error, kind):
            return code, str(error)
    return ExitCode.FAULT, (
        f"a fault of ours: {type(error).__name__}: {error}\n"
        "Whatever was logged is kept. Please report it, with what -v and 'autosched doctor' print."
    )


def _expected() -> tuple[tuple[type[Exception], ExitCode], ...]:
    # Imported only once something went wrong: a command that works does not pay for it.
    from autosched.bench.report import BadResults
    from autosched.cli.show_command import NothingLogged
    from autosched.experiment.error import BadFolder, MissingPackage
    from autosched.export.folder import BadFolder as BadExportFolder
    from autosched.export.folder import NothingToExport
    from autosched.export.selection import NoSuchWorkload
    from autosched.landscape.form import BadLandscape
    from autosched.landscape.subspace import BadSubspace
    from autosched.machine import UnknownName
    from autosched.spec import SpecError
    from autosched.tune.identity import ResumeRefused
    from cost_model.settings import BadPrior, BadSettings
    from measure.builder import BuildError
    from measure.service import NoDevice
    from search_space.refusal import IllegalStep
    from search_space.rules import NoSketch
    from search_space.schedule import BadSchedule

    return (
        (SpecError, ExitCode.USAGE),
        (BadLandscape, ExitCode.USAGE),
        (BadSubspace, ExitCode.USAGE),
        (BadPrior, ExitCode.USAGE),
        (BadSettings, ExitCode.USAGE),
        (BadExportFolder, ExitCode.USAGE),
        (NoSuchWorkload, ExitCode.USAGE),
        (UnknownName, ExitCode.USAGE),
        (BadSchedule, ExitCode.USAGE),
        (IllegalStep, ExitCode.USAGE),
        (BadResults, ExitCode.USAGE),
        (BadFolder, ExitCode.USAGE),
        (MissingPackage, ExitCode.USAGE),
        (ResumeRefused, ExitCode.USAGE),
        (NoSketch, ExitCode.NOTHING_VALID),
        (NothingToExport, ExitCode.NOTHING_VALID),
        (NothingLogged, ExitCode.NOTHING_VALID),
        (BuildError, ExitCode.NOTHING_VALID),
        (NoDevice, ExitCode.NO_DEVICE),
    )


def _storage_sentence(error: OSError) -> str:
    name = errno.errorcode.get(error.errno or 0, "?")
    where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
    return f"{where}{error.strerror} ({name})"
