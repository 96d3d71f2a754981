"""`python -m tests.keyfold.keyed.kept_lakehouse`: make the small lakehouse that every later version goes on from.

It is made once for each number of the form (`generations.FORMAT`), and committed. Two jobs have read five runs of
clicks: `windows` with timers, whose state lies in manifests, and `notes`, whose state lies in files of a few rows each, with
rows that replace, that are added, and that mark a key as gone.
"""

import shutil
import tarfile
from pathlib import Path

import pyarrow as pa

from keyfold.keyed.execution import operator
from keyfold.keyed.generation.generation_record import FORMAT
from keyfold.keyed.job_run import run_job
from keyfold.keyed.state_parts.part_rows import Sizes
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.session import SparkSettings
from keyfold.stream import TIMESTAMP, Stream
from tests.keyfold.keyed.toy_jobs import notes, windows
from tests.lake import Lake
from tests.shop import CLICK

_DATA = Path(__file__).parents[2] / "data"
KEPT = sorted(_DATA.glob("lakehouse_of_form_*.tar.xz"))

# All runs but the first are of few users, so that what they change is not joined with the base; the last one has every row of
# one user given out, since three of them are due.
RUNS = (
    [(f"user-{number:02d}", number % 2 * 2 + 1) for number in range(60)],
    [(f"user-{number:02d}", 3) for number in range(50, 60)],
    [("gone", 2), ("gone", 4), ("gone", 6), ("user-02", 4)],
    [("user-01", 7), ("user-03", 11)],
    [("user-02", 16), ("user-05", 15)],
)
MORE = [("user-01", 18), ("user-02", 27), ("user-59", 21), ("new", 40)]

# It was made of clicks whose time may be missing.
_CLICK = CLICK.set(1, CLICK.field("at").with_nullable(True))
_OF_CLICKS = {"stream": Stream("clicks", _CLICK, event_time="at"), "columns": _CLICK}
WINDOWS = windows(**_OF_CLICKS)
NOTES = notes(**_OF_CLICKS, state=pa.schema([*_CLICK, ("deadline", TIMESTAMP)]), output=_CLICK)

_FOLDER = Path("/tmp/keyfold-kept")  # noqa: S108 - its records hold its path, and this one is nobody's


def main() -> None:
    shutil.rmtree(_FOLDER, ignore_errors=True)
    lakehouse = Lakehouse(_FOLDER)
    runners = Runners("local", SparkSettings(conf={"spark.sql.shuffle.partitions": "1"}))
    usual = operator.SIZES
    for rows in RUNS:
        Lake(lakehouse).click(*rows)
        run_job(lakehouse, WINDOWS, runners=runners)
        operator.SIZES = Sizes(rows_a_group=4, rows_a_segment=24, inline_bytes=0, small_bytes=0)
        run_job(lakehouse, NOTES, runners=runners)
        operator.SIZES = usual
    with tarfile.open(_DATA / f"lakehouse_of_form_{FORMAT}.tar.xz", "w:xz") as archive:
        archive.add(_FOLDER, "lakehouse", filter=_without_owner)
    shutil.rmtree(_FOLDER)


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main()
