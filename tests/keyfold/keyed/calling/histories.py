"""Histories of clicks whose silences are those at which the answers of hand-written steps turn, and their division into runs."""

from datetime import datetime, timedelta

from hypothesis import strategies as st

from tests.keyfold.keyed.handwritten_steps import ALARM, NOON, SOON, TICK, TIMEOUT, Click

GAPS = [
    timedelta(0), TICK, SOON - TICK, SOON, SOON + TICK, timedelta(minutes=4),
    TIMEOUT - TICK, TIMEOUT, TIMEOUT + TICK, TIMEOUT + timedelta(minutes=4), 10 * TIMEOUT,
]  # fmt: skip
DELAYS = [timedelta(0), TICK, timedelta(minutes=4), TIMEOUT]
HISTORY = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(GAPS), st.sampled_from([1, 2, ALARM])), min_size=1, max_size=14
)


def history(drawn) -> list[Click]:
    at, clicks = NOON, []
    for user, gap, cents in drawn:
        at += gap
        clicks.append(Click(user, at, cents))
    return clicks


def cut(clicks: list[Click], cuts: set[int]) -> list[tuple[datetime, list[Click]]]:
    """Divide clicks into runs; those of one moment stay together, as in slices."""
    runs: list[list[Click]] = [[]]
    for number, click in enumerate(clicks):
        if number in cuts and click.at != clicks[number - 1].at:
            runs.append([])
        runs[-1].append(click)
    # A run is planned when its last click has come.
    return [(run[-1].at, run) for run in runs if run]
