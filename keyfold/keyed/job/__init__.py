"""Names for the authors of jobs: contract, inputs, parameters and timeouts.

The names that every job needs are in `keyfold` itself. These are the names that some jobs need.
"""

from typing import TYPE_CHECKING

from keyfold.lazy_names import lazy_names

if TYPE_CHECKING:
    from keyfold.keyed.job.inputs import JobTable
    from keyfold.keyed.job.parameters import Delay, Duration, EventTimeParameters, FilePath, Names, Window, WindowShape
    from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE
    from keyfold.keyed.job.timeouts import TimeKind, Timeout

__all__ = [
    "DEADLINE",
    "PROCESSING_DEADLINE",
    "Delay",
    "Duration",
    "EventTimeParameters",
    "FilePath",
    "JobTable",
    "Names",
    "TimeKind",
    "Timeout",
    "Window",
    "WindowShape",
]

_MODULES = {
    "keyfold.keyed.job.inputs": ("JobTable",),
    "keyfold.keyed.job.step": ("DEADLINE", "PROCESSING_DEADLINE"),
    "keyfold.keyed.job.parameters": (
        "Delay",
        "Duration",
        "EventTimeParameters",
        "FilePath",
        "Names",
        "Window",
        "WindowShape",
    ),
    "keyfold.keyed.job.timeouts": ("TimeKind", "Timeout"),
}
__getattr__ = lazy_names(globals(), _MODULES)
