"""What lands is hostile or broken: files, links and pipes, bombs, giant lines, one line in a hundred malformed in twenty ways."""

import gzip
import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.chaos.launcher import Launcher
from tests.chaos.story import INGEST, TO_THE_END, Homes, click, expected, found, moment
from tests.chaos.tally import Rows

PROMISE = "Whatever lands: good rows of whole files are read once, all else stands in quarantine with its reason."

Good = list[tuple[str, int]]
"""Clicks that are to be accepted: user, and minute of 2 February 2024."""


def lines(good: Good) -> str:
    return "".join(click(*one) for one in good)


SOME: Good = [("eve", minute) for minute in range(0, 40, 2)]

MALFORMED = [
    b'{"user": "u", "at": "2024-02-01T00:00:00Z", "clicks": 1',  # cut off
    b'{"user": "u", "at": "2024-02-01T00:00:00Z", "clicks": 1,}',
    b'["u", "2024-02-01T00:00:00Z", 1]',
    b'"a text"',
    b"17",
    b"null",
    b"{}",
    b'{"at": "2024-02-01T00:00:00Z", "clicks": 1}',
    b'{"user": null, "at": "2024-02-01T00:00:00Z", "clicks": 1}',
    b'{"user": "u", "clicks": 1}',
    b'{"user": "u", "at": null, "clicks": 1}',
    b'{"user": "u", "at": "yesterday", "clicks": 1}',
    b'{"user": "u", "at": "2024-02-31T00:00:00Z", "clicks": 1}',
    b'{"user": "u", "at": "2099-02-01T00:00:00Z", "clicks": 1}',  # no clock says so yet
    b'{"user": "u", "at": "2024-02-01T00:00:00Z", "clicks": "many"}',
    b'{"user": "u", "at": "2024-02-01T00:00:00Z", "clicks": 99999999999999999999999}',
    b'{"user": "u", "at": "2024-02-01T00:00:00Z", "clicks": [1, {"2": ]}',
    b"{'user': 'u', 'at': '2024-02-01T00:00:00Z', 'clicks': 1}",
    b"<click user='u'/>",
    b"user,at,clicks",
]


def one_line_in_a_hundred(landing: Path) -> tuple[Good, int]:
    good = [(f"user{number}", number % 600) for number in range(1980)]
    told = [line.encode() for line in lines(good).splitlines(keepends=True)]
    for index, bad in enumerate(MALFORMED):
        told.insert(index * 100 + 50, bad + b"\n")
    (landing / "some.ndjson").write_bytes(b"".join(told))
    return good, len(MALFORMED)


def no_text(landing: Path) -> tuple[Good, int]:
    # As a whole: in another encoding, lines without a letter of it would be good by chance.
    (landing / "latin1.ndjson").write_bytes(lines(SOME).replace("eve", "René").encode("latin-1"))
    (landing / "binary.ndjson").write_bytes(lines(SOME).encode() + b"\0\n")
    return [], 2


def giant_line(landing: Path) -> tuple[Good, int]:
    (landing / "giant.ndjson").write_text(click("no", 1) + '{"user": "' + "x" * (3 << 20) + '"}\n' + click("no", 2))
    return [], 1


def gzip_bomb(landing: Path) -> tuple[Good, int]:
    with gzip.open(landing / "bomb.ndjson.gz", "wb") as file:
        for _ in range(64):
            file.write(b"\n" * (1 << 20))
    return [], 1


def truncated_gzip(landing: Path) -> tuple[Good, int]:
    whole = gzip.compress(lines(SOME).encode())
    (landing / "cut.ndjson.gz").write_bytes(whole[: len(whole) * 2 // 3])
    return [], 1


def no_gzip(landing: Path) -> tuple[Good, int]:
    (landing / "no.ndjson.gz").write_bytes(os.urandom(4096))
    return [], 1


def whole_gzip(landing: Path) -> tuple[Good, int]:
    (landing / "whole.ndjson.gz").write_bytes(gzip.compress(lines(SOME).encode()))
    return SOME, 0


def links_out(landing: Path) -> tuple[Good, int]:
    outside = landing.parent.parent.parent / f"outside of {landing.parent.parent.name}"
    outside.mkdir()
    (outside / "secret.ndjson").write_text(lines(SOME))
    (landing / "file.ndjson").symlink_to(outside / "secret.ndjson")
    (landing / "folder").symlink_to(outside)
    (landing / "zeros.ndjson").symlink_to("/dev/zero")
    (landing / "nowhere.ndjson").symlink_to(outside / "not-there")
    (landing / "loop").symlink_to(landing)
    return [], 4


def pipe(landing: Path) -> tuple[Good, int]:
    os.mkfifo(landing / "pipe.ndjson")
    return [], 0


def dated(year: int) -> Callable[[Path], tuple[Good, int]]:
    def land(landing: Path) -> tuple[Good, int]:
        path = landing / f"{year}.ndjson"
        path.write_text(lines(SOME))
        seconds = (year - 1970) * 31_556_952
        os.utime(path, (seconds, seconds))
        return SOME, 0

    return land


def strange_names(landing: Path) -> tuple[Good, int]:
    good: Good = []
    for index, name in enumerate((" a b", "ümlaut", "line\nbreak", "quo'te\"", "per%20cent", "a" * 200, "star*[x]?")):
        good.append(("eve", index))
        (landing / f"{name}.ndjson").write_text(click("eve", index))
    return good, 0


def strange_contents(landing: Path) -> tuple[Good, int]:
    (landing / "empty.ndjson").write_text("")
    (landing / "blank.ndjson").write_text("\n\n \n")
    (landing / "windows.ndjson").write_text(lines(SOME).replace("\n", "\r\n"))
    (landing / "mark.ndjson").write_bytes(b"\xef\xbb\xbf" + click("bob", 50).encode())
    (landing / "open.ndjson").write_text(click("bob", 51).rstrip("\n"))
    return [*SOME, ("bob", 50), ("bob", 51)], 0


FAULTS: dict[str, Callable[[Path], tuple[Good, int]]] = {
    "1 % of rows malformed in 20 ways": one_line_in_a_hundred,
    "files that are not UTF-8, or binary": no_text,
    "a giant line": giant_line,
    "a gzip bomb": gzip_bomb,
    "a truncated gzip": truncated_gzip,
    "noise that is called gzip": no_gzip,
    "a whole gzip beside it all": whole_gzip,
    "links out, in a circle, to a device and to nowhere": links_out,
    "a FIFO": pipe,
    "a file dated 2099": dated(2099),
    "a file dated 1970": dated(1970),
    "names with blanks, breaks, quotes and patterns": strange_names,
    "empty, blank, with a mark, with another system's ends of line": strange_contents,
}


def test_all_that_may_land_at_once_costs_itself_alone(launcher: Launcher, homes: Homes, tally):
    told = tally("all of these at once")
    home = homes.copy(homes.after(homes.running, *TO_THE_END))
    should_be = expected(home)
    good, rejected = [], 0
    for land in FAULTS.values():
        more, bad = land(home / "landing" / "clicks")
        good, rejected = good + more, rejected + bad
    code, run = launcher.run(home, INGEST, INGEST)
    assert code == 0, run.said
    # Some land the same clicks: an event is there once, however often it came.
    told.count(only_ingested(should_be, sorted(set(good)), rejected), only_ingested(found(home)), run.said)


def test_a_file_that_is_replaced_after_it_was_read_is_told_and_read_again_by_the_option_that_is_named(
    launcher: Launcher, homes: Homes, tally
):
    told = tally("a file is replaced after it was read")
    home = homes.copy(homes.after(homes.running, *TO_THE_END))
    should_be = expected(home)
    (home / "landing" / "clicks" / "000.ndjson").write_text(lines(SOME))
    code, run = launcher.run(home, INGEST)
    assert code == 0
    assert "was not read again; --reread-changed" in run.said
    told.count(only_ingested(should_be), only_ingested(found(home)), "before it is read again")
    code, run = launcher.run(home, (*INGEST, "--reread-changed"))
    assert code == 0, run.said
    told.count(only_ingested(should_be, SOME), only_ingested(found(home)), "read again", refused=True)


@pytest.mark.chaos
def test_a_file_that_goes_between_plan_and_reading_is_told_and_no_other_is_lost(
    launcher: Launcher, homes: Homes, tally
):
    told = tally("a file is gone when it is to be read")
    home = homes.copy(homes.after(homes.running, *TO_THE_END))
    landing, should_be = home / "landing" / "clicks", expected(home)
    (landing / "lost.ndjson").write_text(lines(SOME))
    (landing / "kept.ndjson").write_text(click("bob", 55))
    code, run = launcher.run(
        home,
        INGEST,
        hooks=["tests.chaos.hooks:lose_a_landing_file"],
        environment={"LOSE": str(landing / "lost.ndjson")},
    )
    assert not (landing / "lost.ndjson").exists()
    assert code == 0
    assert "1 still being written" in run.said
    shutil.copy(landing / "kept.ndjson", landing / "copy.ndjson")
    code, run = launcher.run(home, INGEST)
    assert code == 0, run.said
    told.count(only_ingested(should_be, [("bob", 55)]), only_ingested(found(home)), run.said)


def only_ingested(rows: Rows, good: Sequence[tuple[str, int]] = (), rejected: int = 0) -> Rows:
    """Rows of the event table and of the quarantine, and what is to come to them."""
    told: Rows = Counter({row: count for row, count in rows.items() if row[0] in ("events", "quarantine")})
    told.update(("events", user, moment(minute)[:16].replace("T", " ")) for user, minute in good)
    told[("quarantine",)] += rejected
    return told
