"""Events of any job whose times are as far apart as its durations, and the check that it gives one answer for them."""

import random
from datetime import timedelta

from keyfold import KeyedJob
from keyfold.testing import assert_one_answer
from keyfold.testing.durations import times_apart
from keyfold.testing.made_events import NOON, Rows, drawn_silences, first_readers, made_events, made_history
from keyfold.testing.verifying import DIVISIONS, WAYS


def events_apart(job: KeyedJob, chance: random.Random) -> Rows:
    """Draw events of each table with silences around the durations of the job between them, in no order."""
    rows = made_events(job, {}, chance)
    times = times_apart(drawn_silences(job), chance, sum(map(len, rows.values())), NOON)
    chance.shuffle(times)
    columns = {first: job.inputs[first].stored_time for first in first_readers(job).values()}
    return {name: [{**row, columns[name]: times.pop()} for row in drawn] for name, drawn in rows.items()}


def assert_one_answer_however_a_run_comes(job: KeyedJob, chance: random.Random) -> None:
    """Play two runs of events at silences, some of them late, in any order and in slices; also apart in processing time."""
    runs, between = [events_apart(job, chance), events_apart(job, chance)], chance.choice(drawn_silences(job))
    for way in WAYS:
        assert_one_answer(job, runs, way, chance.choice([between, timedelta(0)]))


def assert_one_answer_in_any_runs(job: KeyedJob, chance: random.Random) -> None:
    """Play events at silences that follow each other, in one run and in a run for each time."""
    runs = made_history(job, {}, chance)
    for way in DIVISIONS:
        assert_one_answer(job, runs, way)
