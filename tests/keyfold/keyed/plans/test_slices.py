"""Slices: every row is in one, in order of time, and few files are read twice."""

from hypothesis import given
from hypothesis import strategies as st

from keyfold.keyed.plans.slices import cut
from keyfold.lakehouse.log_changes import DataFile

SPANS = st.tuples(st.integers(-100, 1000), st.integers(0, 300), st.integers(1, 1_000_000))


def file(number, first, length, size, unit=1000):
    """A file whose times are whole milliseconds, or are in units of so many microseconds."""
    return DataFile(f"{number}.parquet", 100, size, first * unit, (first + length) * unit)


@given(
    spans=st.lists(SPANS, max_size=20),
    size=st.integers(1, 1_000_000),
    late=st.none() | st.integers(-100, 1300),
    since=st.none() | st.integers(-100, 500),
    until=st.none() | st.integers(500, 1300),
    unit=st.sampled_from([1, 300, 1000, 10**14]),
)
def test_every_moment_of_every_file_is_in_one_slice_and_what_is_late_is_in_the_first(
    spans, size, late, since, until, unit
):
    files = [file(number, *span, unit=unit) for number, span in enumerate(spans)]
    late, since, until = (None if bound is None else bound * unit for bound in (late, since, until))
    slices = cut(files, size, late, since, until)
    for one in files:
        assert one.first is not None
        assert one.last is not None
        for moment in (one.first, (one.first + one.last) // 2, one.last):
            holding = [
                number
                for number, part in enumerate(slices)
                if (part.since is None or part.since <= moment) and (part.until is None or moment < part.until)
                if one.path in {chosen.path for chosen, _ in part.files}
            ]
            wanted = (since is None or since <= moment) and (until is None or moment < until)
            assert len(holding) == wanted
            if wanted and late is not None and moment <= late:
                assert holding == [0]
    for part in slices:
        for chosen, whole in part.files:
            assert chosen.first is not None
            assert chosen.last is not None
            inside = (part.since is None or chosen.first >= part.since) and (
                part.until is None or chosen.last < part.until
            )
            assert whole == inside
