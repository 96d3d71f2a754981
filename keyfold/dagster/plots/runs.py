"""Plot the events of each batch and the open events in state."""

import dagster as dg

from keyfold.dagster.plots.figure import MAIN, SECOND, draw, picture
from keyfold.keyed.generation.generations import live_generation
from keyfold.lakehouse import Lakehouse


def plot_runs(lakehouse: Lakehouse, job: str) -> dict[str, dg.MetadataValue]:
    """Plot throughput and open events of the live generation's last batches (at most 100)."""
    generation = live_generation(lakehouse, job)
    records = generation.journal.recent() if generation else []
    if not records:
        return {}
    figure, (events, state) = draw(2, height=2.2)
    numbers = [record.batch for record in records]
    events.bar(numbers, [record.counts.events for record in records], color=MAIN)
    events.set_title("events of each batch")
    state.step(numbers, [record.totals.open_events for record in records], color=SECOND, where="post")
    state.set_ylim(bottom=0)
    state.set_title("open events after each batch")
    for panel in (events, state):
        panel.set_xlabel(f"batch (the last at {records[-1].finished_at:%Y-%m-%d %H:%M} UTC)")
        panel.locator_params(axis="x", integer=True)
    return {"throughput_and_state": picture(figure, f"Throughput and state of {job}")}
