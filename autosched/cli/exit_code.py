"""What the exit status of a command means. Knows no command and no exception."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The whole contract: no command ends with any other number."""

    DONE = 0
    #: The answer is no: damage found, a difference found.
    NO = 1
    #: A mistake in the command, a spec or a schedule.
    USAGE = 2
    #: No schedule built, verified and ran.
    NOTHING_VALID = 3
    NO_DEVICE = 4
    #: The disk is full, read-only, locked or refuses us.
    STORAGE = 5
    #: A bug of ours.
    FAULT = 70
    INTERRUPTED = 130
