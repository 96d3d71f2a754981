"""Expectations on `event_index` with its default stream and key, by check name."""

from keyfold.suite import Suite, critical, info, warning


def expectations_for(key: tuple[str, ...], event_time: str, *, windows: bool = False, expires: bool = False) -> Suite:
    """Return the suite for events numbered by these key columns, optionally in windows, or with numbers that expire."""
    if expires:
        of_one_life = ("one_event_a_number", "no_number_is_skipped", "numbers_follow_time")
        kept = {name: one for name, one in expectations_for(key, event_time).items() if name not in of_one_life}
        return {**kept, **_of_lives(key)}
    if windows:
        return {**expectations_for((*key, "window_start"), event_time), **_of_windows(event_time)}
    columns = ", ".join(f"`{column}`" for column in key)
    return {
        **{f"{column}_is_there": critical.not_null(column, "Every event names its key.") for column in key},
        "event_index_is_there": critical.not_null("event_index", "Every event has a number."),
        "counts_from_nought": critical.between("event_index", "Numbers are not negative.", min_value=0),
        "one_event_a_number": critical.unique([*key, "event_index"], "No two events of a key have the same number."),
        "no_number_is_skipped": critical.no_rows(
            f"SELECT {columns}, count(*) AS events, max(event_index) AS last FROM {{batch}} GROUP BY {columns} "  # noqa: S608 - names of the job's own columns
            "HAVING max(event_index) <> count(*) - 1",
            "A key's numbers have no gaps.",
        ),
        "numbers_follow_time": warning.no_rows(
            f"SELECT * FROM (SELECT *, lag({event_time}) OVER (PARTITION BY {columns} ORDER BY event_index NULLS FIRST) AS before "  # noqa: S608
            f"FROM {{batch}}) WHERE {event_time} < before",
            "Numbers follow event time; a violation means that an event was more than `watermark_delay` late.",
        ),
        "mean_index_is_usual": info.mean_between(
            "event_index",
            "No key has more than about two million events; one task processes all events of a key.",
            max_value=1_000_000,
        ),
    }


def _of_lives(key: tuple[str, ...]) -> Suite:
    columns = ", ".join(f"`{column}`" for column in key)
    return {
        "each_life_counts_from_nought": critical.no_rows(
            "SELECT * FROM (SELECT *, coalesce(lag(event_index) OVER lower, -1) AS index_before, "  # noqa: S608 - names of the job's own columns
            f"coalesce(lag(events) OVER lower, events) AS events_before FROM (SELECT {columns}, event_index, count(*) AS events "
            f"FROM {{batch}} GROUP BY {columns}, event_index) WINDOW lower AS (PARTITION BY {columns} ORDER BY event_index)) "
            "WHERE event_index <> index_before + 1 OR events > events_before",
            "No number of a key is skipped, and none occurs more often than the one before it.",
        ),
    }


def _of_windows(event_time: str) -> Suite:
    return {
        "an_event_is_in_its_window": critical.no_rows(
            f"SELECT * FROM {{batch}} WHERE NOT ({event_time} >= window_start AND {event_time} < window_end) "  # noqa: S608 - names of the job's own columns
            "OR window_end IS NULL",
            "A window's events are from its start (inclusive) to its end (exclusive).",
        ),
        "windows_have_one_length": critical.no_rows(
            "SELECT window_start, window_end FROM {batch} "
            "WHERE window_end - window_start <> (SELECT min(window_end - window_start) FROM {batch})",
            "All windows have the same length.",
        ),
    }


EXPECTATIONS: Suite = expectations_for(("ride_id",), "timestamp")
