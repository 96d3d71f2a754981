"""What a step may return: a `Step` of frames in the declared columns, and every event in one of them."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.per_key import KeyAnswer, column_of, per_key
from keyfold.keyed.job.step import Step
from keyfold.keyed.rows.codec import AnswerError
from tests.examples import examples
from tests.keyfold.keyed.toy_jobs import notes, totals, windows, windows_per_key
from tests.shop import clicks

NOTHING: Any = None
NO_KEY = "the step's state has no value in the key's column user"
EMPTY = pl.DataFrame(schema={"user": pl.String, "clicks": pl.Int64})


def of_handler(*, state=(), output=(), side=None):
    def handler(key, kept, events, clock):
        return KeyAnswer(state=state, output=output, side=side or {})

    return totals(step=per_key(handler))


def that_gives(**changes):
    """The job with a step that gives back something else in place of some of its frames."""
    kept = totals().function

    def step(state, events, clock):
        answer = kept(state, events, clock)
        return replace(answer, **{name: change(getattr(answer, name)) for name, change in changes.items()})

    return totals(step=step)


def without_state(**changes):
    return that_gives(state=lambda _: pl.DataFrame(), **changes)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (
            of_handler(output=[{"clicsk": 1}]),
            "handler's output misses clicks and has clicsk besides its columns; .*user, clicks",
        ),
        (of_handler(state=[{"clicks": 1, "sinse": 2}]), "handler's state has sinse besides its columns"),
        (of_handler(state=[{}]), "handler's state misses clicks"),
        (of_handler(side={"chnages": [{"clicks": 1}]}), "writes chnages, which is no table of the job"),
        (of_handler(output=[{"clicks": 1.5}]), "output has a value of type float in clicks, which holds Int64"),
        (of_handler(state=[{"clicks": "1"}]), "state has a value of type str in clicks, which holds Int64"),
        (of_handler(state=[{"clicks": 2**63}]), "state has a value in clicks that does not fit into Int64"),
        (totals(step=lambda state, events, clock: events), r"returned a DataFrame, not a Step: return Step\(state="),
        (totals(step=lambda state, events, clock: None), "returned None, not a Step"),
        (totals(step=lambda state, events, clock: Step(state, NOTHING)), "returned None as output, not a DataFrame"),
        (totals(step=lambda state, events, clock: Step(state.lazy(), state)), "returned a LazyFrame as state"),
        (that_gives(output=lambda rows: rows.drop("clicks")), "step's output misses clicks"),
        (that_gives(output=lambda rows: rows.with_columns(mood=pl.lit("good"))), "output has mood besides its columns"),
        (that_gives(output=lambda rows: rows.with_columns(clicks=pl.lit("x"))), "output clicks is String, not Int64"),
        (that_gives(state=lambda rows: rows.drop("clicks")), "step's state misses clicks"),
        (that_gives(state=lambda rows: rows.with_columns(user=pl.lit(None, pl.String))), NO_KEY),
        (that_gives(late=lambda _: clicks(("ann", 0)).drop("at")), "step's late events misses at"),
        (that_gives(side=lambda _: {"changes": EMPTY.drop("clicks")}), "step's output changes misses clicks"),
        (that_gives(side=lambda tables: {**tables, "moods": EMPTY}), "writes moods, which the job does not declare"),
        (that_gives(add=lambda _: EMPTY), "step returned state and add: state has all rows of its keys, add and drop"),
        (without_state(), "step's state misses user, "),
        (without_state(add=lambda _: EMPTY.with_columns(clicks=pl.lit("x"))), "step's add clicks is String, not Int64"),
        (without_state(drop=lambda _: pl.DataFrame({"person": ["ann"]})), "drop misses user; has person besides its"),
        (
            without_state(drop=lambda _: pl.DataFrame({"user": ["bob"]})),
            r"1 row of keys \(user\) that it was not given",
        ),
        (without_state(drop=lambda _: pl.DataFrame({"user": [None]})), NO_KEY),
    ],
)
def test_an_answer_in_another_shape_is_refused_with_what_to_return(lake, job, message):
    with pytest.raises(ValueError, match=message) as raised:
        TestHarness(job).batch(clicks(("ann", 0)))
    assert raised.value.__notes__ == ["job totals"]
    lake.click(("ann", 0))
    with pytest.raises(KeyfoldError, match=f"job totals.*{message}"):
        lake.run(job)


def test_the_harness_fails_a_step_that_drops_events_or_counts_some_twice():
    for job in (windows(), windows_per_key()):
        harness = TestHarness(job)
        harness.batch(clicks(("ann", 0), ("bob", 1), ("ann", 40), ("ann", -99)))
        harness.batch(clicks(("eve", 1)))
        assert harness.written[job.late_table].height == 1
        harness.assert_nothing_lost()
    kept = windows().function
    for part in (lambda events: events.head(1), lambda events: pl.concat([events, events])):
        harness = TestHarness(windows(step=lambda state, events, clock, part=part: kept(state, part(events), clock)))
        harness.batch(clicks(("ann", 0), ("ann", 0)))
        with pytest.raises(
            AssertionError, match=r"job windows: 2 events were passed in, and [14] are counted .* in state"
        ):
            harness.assert_nothing_lost()


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=3), st.binary(max_size=3),
    st.decimals(allow_nan=False, places=1), st.datetimes(timezones=st.just(UTC)), st.dates(), st.timedeltas(),
)  # fmt: skip
KINDS = [pl.Int64(), pl.UInt8(), pl.Float64(), pl.Boolean(), pl.String(), pl.Binary(), pl.Decimal(20, 1), pl.Date()]
KINDS += [pl.Datetime("us", "UTC"), pl.Duration("us")]


@examples(300)
@given(st.sampled_from(KINDS), st.lists(SCALARS, max_size=3))
def test_a_value_comes_out_of_its_column_as_it_went_in_or_is_refused(kind, values):
    for nest, unnest in ((lambda value: value, lambda value: value), (lambda value: [value], lambda value: value[0])):
        nested = kind if nest(1) == 1 else pl.List(kind)
        try:
            found = column_of("it", [nest(value) for value in values], nested, "a record").to_list()
        except AnswerError:
            continue
        for value, came in zip(values, map(unnest, found), strict=True):
            assert came == value or value != value


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_kinds_that_a_column_holds_are_taken(kind):
    taken = {
        "Integer": [0, True, None], "Float": [1, 1.5, None], "Boolean": [True], "String": ["x"], "Binary": [b"x"],
        "Decimal": [Decimal("1.5"), 2], "Date": [date(1, 1, 1)], "Datetime": [datetime(1, 1, 1, tzinfo=UTC)],
        "Duration": [timedelta(1)],
    }  # fmt: skip
    name = "Integer" if kind.is_integer() else "Float" if kind.is_float() else type(kind).__name__
    assert column_of("it", taken[name], kind, "a record").to_list() == taken[name]


def test_a_step_that_says_nothing_of_its_output_writes_no_rows():
    harness = TestHarness(notes(step=lambda state, events, clock: Step(state=state)))
    assert harness.batch(clicks(("ann", 1))).tables == {}
