"""Sales come in the shop's two layouts, some from tills without a clock."""

import gzip
import re


def test_some_messages_of_tills_without_a_clock_say_no_time_and_nothing_else_that_a_clock_would_tell(calls):
    for call in calls("sales"):
        untimed = [event for event in call.found.events if event["time"] is None]
        assert 0.02 < len(untimed) / len([event for event in call.found.events if event["invoice"] is None]) < 0.1
        assert len(untimed) == call.summary.untimed
        messages = [path for path in call.paths if ".ndjson" in path.name and "cut-short" not in path.name]
        lines = [line for path in messages for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
        bare = r'\{"item":"[^"]+","quantity":-?\d+,"model":\["[^]]*"\]\}'
        assert sum(bool(re.fullmatch(bare, line)) for line in lines) == len(untimed)
