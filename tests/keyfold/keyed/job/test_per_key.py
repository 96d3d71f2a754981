"""A handler gets the events of its key in one order, whatever files they came in."""

import polars as pl
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from keyfold import KeyAnswer, Stream, per_key
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import STEP_DECIDES, Input
from keyfold.keyed.job.tables import Upsert
from keyfold.stream import TIMESTAMP
from tests.examples import examples
from tests.lake import Lake
from tests.shop import MINUTE, NOON, USER

TAP = pa.schema(
    [
        USER,
        pa.field("at", TIMESTAMP, nullable=False),
        pa.field("letter", pa.string()),
        pa.field("parts", pa.list_(pa.int64())),
    ]
)
WORD = pa.schema([USER, pa.field("word", pa.string())])
KINDS = {"user": pl.String, "at": pl.Datetime("us", "UTC"), "letter": pl.String, "parts": pl.List(pl.Int64)}


def spell(key, state, events, clock):
    word = (state[0]["word"] if state else "") + "".join(f"{event['letter']}{event['parts']}" for event in events)
    return KeyAnswer(state=[{"word": word}], output=[{"word": word}])


TAPS = KeyedJob(
    "taps",
    Input(Stream("taps", TAP, event_time="at"), columns=TAP, final_at=STEP_DECIDES),
    "user",
    WORD,
    per_key(spell),
    Upsert(WORD, "user", events=pl.lit(0)),
    key_groups=1,
)


@examples(10)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 1), st.sampled_from("AB"), st.none() | st.lists(st.none() | st.integers(0, 1), max_size=2)
        ),
        min_size=2,
        max_size=6,
    ),
    st.data(),
)
def test_simultaneous_events_are_in_order_of_their_other_columns(tmp_path_factory, taps, data):
    lake = Lake(tmp_path_factory.mktemp("lake"))
    # Each in a file of its own, whose name is by chance.
    for minute, letter, parts in data.draw(st.permutations(taps)):
        row = {"user": ["ann"], "at": [NOON + minute * MINUTE], "letter": [letter], "parts": [parts]}
        lake.put(pl.DataFrame(row, schema=KINDS), "taps")
    lake.run(TAPS)

    def place(tap):
        minute, letter, parts = tap
        return minute, letter, parts is not None, [(part is not None, part or 0) for part in parts or ()]

    expected = "".join(f"{letter}{parts}" for _, letter, parts in sorted(taps, key=place))
    assert lake.rows("taps", "word") == [(expected,)]
