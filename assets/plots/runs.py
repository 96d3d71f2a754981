"""How a job has been doing: events of each micro-batch, and events that wait in its state."""

from datetime import datetime

import dagster as dg

from assets.plots.figure import MAIN, SECOND, draw, picture
from spark_jobs.keyed.generations import live_generation
from spark_jobs.keyed.sink import recent_batches
from spark_jobs.lakehouse import Lakehouse


def plot_runs(lakehouse: Lakehouse, job: str) -> dict[str, dg.MetadataValue]:
    """Throughput and open state of the live generation's last micro-batches (a hundred at most)."""
    generation = live_generation(lakehouse, job)
    records = recent_batches(generation) if generation else []
    if not records:
        return {}
    figure, (events, state) = draw(2, height=2.2)
    numbers = [record.batch for record in records]
    events.bar(numbers, [record.counts.events for record in records], color=MAIN)
    events.set_title("events of each micro-batch")
    state.step(numbers, [record.totals.open_events for record in records], color=SECOND, where="post")
    state.set_ylim(bottom=0)
    state.set_title("events that wait in state after it")
    for panel in (events, state):
        panel.set_xlabel(
            f"micro-batch (the last at {datetime.fromisoformat(records[-1].written_at):%Y-%m-%d %H:%M} UTC)"
        )
        panel.locator_params(axis="x", integer=True)
    return {"throughput_and_state": picture(figure, f"Throughput and state of {job}")}
