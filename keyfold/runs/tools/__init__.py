"""Tools that change the state of jobs, each declared once; commands are built from the declarations."""

from keyfold.runs.tools.branching import PromoteBranch, RedriveLateEvents, TryChangedJob
from keyfold.runs.tools.editing import CorrectEvents, EditKeys, EraseRowsEverywhere, QuarantineEvents
from keyfold.runs.tools.new_generation import BootstrapState, MoveState
from keyfold.runs.tools.tool import StateTool

STATE_TOOLS: dict[str, type[StateTool]] = {
    tool.tool: tool
    for tool in (
        BootstrapState,
        MoveState,
        TryChangedJob,
        PromoteBranch,
        RedriveLateEvents,
        EditKeys,
        CorrectEvents,
        QuarantineEvents,
        EraseRowsEverywhere,
    )
}
"""Every tool, by name."""

__all__ = ["STATE_TOOLS", "StateTool"]
