"""Sales come in the shop's two layouts."""

import re
from collections import Counter

from spark_jobs.streams import SALES
from tests.keyfold.ingestion.parsing.reading import file_rows
from tests.spark_jobs.simulation.reading import HOUR


def test_ingest_reads_both_layouts_into_the_same_columns(calls):
    call, _ = calls("sales")
    arrived = call.summary.end + HOUR
    ours = Counter(
        (
            event["key"],
            event["quantity"],
            event["time"] or arrived,
            event["price"],
            tuple(event["models"]),
            event.get("InvoiceNo"),
        )
        for event in call.found.events
    )
    theirs = Counter()
    for path in call.paths:
        for row in file_rows(SALES, path, arrived, call.landing):
            if row["reason"] is None:
                theirs[
                    row["item"], row["quantity"], row["time"], row["price"], tuple(row["models"]), row["invoice"]
                ] += 1
    assert ours == theirs


def test_some_messages_of_tills_without_a_clock_say_no_time_and_nothing_else_that_a_clock_would_tell(calls):
    for call in calls("sales"):
        messages = [event for event in call.found.events if "InvoiceNo" not in event]
        untimed = [event["line"] for event in messages if event["time"] is None]
        assert 0.02 < len(untimed) / len(messages) < 0.1
        assert len(untimed) == call.summary.untimed
        assert all(re.fullmatch(r'\{"item":"[^"]+","quantity":-?\d+,"model":\["[^]]*"\]\}', line) for line in untimed)
