"""The command line `keyfold`: what the Dagster assets do, without Dagster.

The names below are for commands that a project adds (`Project.commands`).
"""

from typing import TYPE_CHECKING

from keyfold.lazy_names import lazy_names

if TYPE_CHECKING:
    from keyfold.cli.terminal import report, stop_on_signal

__all__ = ["report", "stop_on_signal"]

_MODULES = {"keyfold.cli.terminal": ("report", "stop_on_signal")}
__getattr__ = lazy_names(globals(), _MODULES)
