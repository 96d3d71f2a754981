"""Draw figures, such as the events of each batch, and embed them as pictures in Markdown metadata.

A job's own plots (`JobAssets(job, plot=…)`) are functions of the lakehouse that return metadata by name, made of `draw`, `legend` and
`picture`; a figure has one unit an axis.
"""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from keyfold.keyed.generation.generations import live_generation
from keyfold.lakehouse import Lakehouse

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAIN = "#2f6db5"
"""Colour of the main series."""
SECOND = "#e08a1e"
"""Colour of the series that the main one is compared with."""
ALARM = "#c8322b"
"""Colour of faults."""
QUIET = "#9aa5b1"
"""Colour of everything else."""

_FEWEST_BATCHES = 3
"""One dot or two have no course."""

_STYLE: Mapping[Any, Any] = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "font.size": 8,
    "lines.linewidth": 1.1,
}


def draw(panels: int = 1, *, width: float = 8, height: float = 3) -> "tuple[Figure, Sequence[Axes]]":
    """Create an empty figure with panels side by side; sizes in inches."""
    # Imported late: matplotlib takes a quarter of a second, and loading definitions draws nothing.
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    with rc_context(dict(_STYLE)):
        figure = Figure(figsize=(width, height), dpi=90, layout="constrained")
        FigureCanvasAgg(figure)
        return figure, [figure.add_subplot(1, panels, at + 1) for at in range(panels)]


def try_plot(
    log: dg.DagsterLogManager, plot: Callable[[], Mapping[str, dg.MetadataValue]]
) -> Mapping[str, dg.MetadataValue]:
    """Return a plot's metadata; if it fails, log a warning and return none."""
    try:
        return plot()
    except Exception:  # the tables are written: a failed plot must not fail the step
        log.warning("the plot could not be drawn", exc_info=True)
        return {}


def picture(figure: "Figure", caption: str) -> dg.MetadataValue:
    """Return the figure as metadata, with a caption as alternative text."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return dg.MetadataValue.md(f"![{caption}](data:image/png;base64,{encoded})")


def in_one_entry(plots: Mapping[str, dg.MetadataValue]) -> dict[str, dg.MetadataValue]:
    """Return plots with the pictures in one entry, `plots`, below each other; entries that are no Markdown stay as they are."""
    pictures = [str(value.value) for value in plots.values() if isinstance(value, dg.MarkdownMetadataValue)]
    others = {name: value for name, value in plots.items() if not isinstance(value, dg.MarkdownMetadataValue)}
    return {**({"plots": dg.MetadataValue.md("\n\n".join(pictures))} if pictures else {}), **others}


def plot_runs(lakehouse: Lakehouse, job: str) -> dict[str, dg.MetadataValue]:
    """Plot throughput and open events of the live generation's last batches (at most 100); nothing for fewer than three."""
    generation = live_generation(lakehouse, job)
    records = generation.journal.recent() if generation else []
    if len(records) < _FEWEST_BATCHES:
        return {}
    figure, (events, state) = draw(2, height=2.2)
    numbers = [record.batch for record in records]
    events.bar(numbers, [record.counts.events for record in records], color=MAIN)
    events.set_title("events of each batch")
    state.plot(numbers, [record.totals.open_events for record in records], color=SECOND, marker=".")
    state.set_title("open events after each batch")
    for panel in (events, state):
        panel.set_xlabel(f"batch (the last at {records[-1].finished_at:%Y-%m-%d %H:%M} UTC)")
        whole_numbers(panel, numbers)
    return {"throughput_and_state": picture(figure, f"Throughput and state of {job}")}


def whole_numbers(panel: "Axes", across: Sequence[int]) -> None:
    """Show counts from 0, over whole numbers such as those of batches, with integer ticks; readable with one of them."""
    panel.set_xlim(min(across) - 1, max(across) + 1)
    panel.set_ylim(0, max(panel.get_ylim()[1], 1))
    for axis in ("x", "y"):
        panel.locator_params(axis=axis, integer=True)


def legend(panel: "Axes") -> None:
    """Put the legend beside the panel, where it hides nothing."""
    panel.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
