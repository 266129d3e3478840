"""Every error and warning of the run time, on one page.

::

    ServeError
    |-- BadInput (ValueError)       the tensors of one call
    |   |-- WrongDtype              a dtype that no kernel takes, or dtypes that do not fit
    |   |-- WrongDevice             no GPU, or tensors on different devices
    |   |-- WrongShape              extents that do not fit
    |   |-- WrongLayout             an output that cannot be written as it lies
    |   `-- NeedsGradient           autograd would not see this call
    |-- NoLog (FileNotFoundError)   no such log
    |-- Miss (LookupError)          nothing tuned, under the policy "error"
    `-- NothingServes               neither a kernel nor torch can compute this workload

    MissWarning (UserWarning)       something other than a tuned kernel serves, once a workload
    CopyWarning (UserWarning)       an input is copied on each call, once an input of a workload
"""

from __future__ import annotations


class ServeError(Exception):
    """The root of what the run time raises on purpose."""


class BadInput(ServeError, ValueError):
    """The tensors of a call do not make a computation; the message names one and the wish."""


class WrongDtype(BadInput):
    """A tensor's dtype is not one that kernels take here."""


class WrongDevice(BadInput):
    """A tensor is not on a GPU, or not on the same one as the others."""


class WrongShape(BadInput):
    """A tensor's rank or an extent does not fit the others."""


class WrongLayout(BadInput):
    """The output's strides, address or memory do not allow it to be written."""


class NeedsGradient(BadInput):
    """A tensor requires grad, and served kernels have no backward."""


class NoLog(ServeError, FileNotFoundError):
    """There is no log at the path."""


class Miss(ServeError, LookupError):
    """The log holds no usable record of a workload and the policy is ``error``."""


class NothingServes(ServeError):
    """No kernel compiles for a workload and torch has no equivalent."""


class MissWarning(UserWarning):
    """A workload is served by a default or by torch; the message says why."""


class CopyWarning(UserWarning):
    """An input has to be copied before each run; the message says what that costs."""
