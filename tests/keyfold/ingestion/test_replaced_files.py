"""Whatever takes the place of a landing file once it is planned: the run goes on, other files are read, and nobody waits."""

import gzip
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from keyfold.ingestion import split_reader
from keyfold.ingestion.drift import find_drift
from keyfold.ingestion.parsing import formats
from keyfold.lakehouse import Lakehouse
from keyfold.runs import ingest
from keyfold.storage import entries
from keyfold.storage.disk_path import DiskPath
from keyfold.storage.place import to_place
from spark_jobs.streams import METRICS
from tests.entries import SECRET
from tests.landings import local_runners, metric, parquet, put, quarantine, rows
from tests.power_cuts import power_cut_at

CONTENTS = {
    "json": metric(1).encode() + b"\n",
    "json.gz": gzip.compress(metric(1).encode() + b"\n"),
    "csv": b"key,timestamp,value\nx,2026-01-01T00:00:00Z,1\n",
    "parquet": parquet(),
}

Replace = Callable[[Path, Path], object]

REPLACED: dict[str, tuple[Replace, int, int]] = {
    # What is done, and how many entries of the quarantine and files that wait come of it. The same run lists the folder once the plan
    # is done, and finds what lies there now.
    "it is gone": (lambda path, _: None, 0, 1),
    "a pipe": (lambda path, _: os.mkfifo(path), 0, 1),
    "a device": (lambda path, _: os.mknod(path, 0o20666, os.makedev(1, 5)), 0, 1),
    "a folder": (lambda path, _: path.mkdir(), 0, 1),
    "a link out": (lambda path, outside: path.symlink_to(outside), 1, 0),
    "a link to nowhere": (lambda path, _: path.symlink_to("nowhere"), 1, 1),
    "a link to itself": (lambda path, _: path.symlink_to(path.name), 1, 0),
    "a link with a target of 256 letters": (lambda path, _: path.symlink_to("x" * 256), 1, 0),
}


@contextmanager
def within_seconds(seconds: int) -> Iterator[None]:
    def late(*_):
        raise AssertionError(f"it has not ended within {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("form", CONTENTS)
@pytest.mark.parametrize("kind", REPLACED)
def test_what_has_taken_the_place_of_a_planned_file_costs_itself_alone(
    lakehouse: Lakehouse, tmp_path: DiskPath, form: str, kind: str
):
    replace, quarantined, waiting = REPLACED[kind]
    landing = tmp_path / "landing"
    landing.mkdir()
    path = landing / f"cpu.{form}"
    path.write_bytes(CONTENTS[form])
    put(landing / "other.json", metric(2))
    (tmp_path / "outside").write_text(SECRET)
    with power_cut_at("plan: after"):
        ingest(lakehouse, METRICS, landing, runners=local_runners(1))
    path.unlink()
    replace(path, tmp_path / "outside")
    with within_seconds(60):
        summary = ingest(lakehouse, METRICS, landing, runners=local_runners(1))
    assert (summary.quarantined, summary.waiting) == (quarantined, waiting)
    assert [row[2] for row in rows(lakehouse.events("metrics"))] == [2.0]
    assert SECRET not in str(quarantine(lakehouse))
    assert {Path(row["file"]).name for row in quarantine(lakehouse)} <= {path.name}


INSIDE, OUTSIDE = 1, 7


def content_of(form: str, value: int) -> bytes:
    """A file of one value, in as many bytes for each value of one digit."""
    line = metric(value).encode()
    return {
        "json": line,
        "json.gz": gzip.compress(line, mtime=0),
        "csv": f"key,timestamp,value\nx,2026-01-01T00:00:00Z,{value}\n".encode(),
        "parquet": parquet(value=pa.array([float(value)] * 200)),
    }[form]


Swap = Callable[[], AbstractContextManager[None]]


def swap_of(path: Path, other: Path, swaps: list[Path], *, and_back: bool) -> Swap:
    """Replace a file or folder by a link to another; and put it back afterwards, so that no later look finds the link.

    Args:
        swaps: gets the path each time.
    """

    @contextmanager
    def swapped() -> Iterator[None]:
        aside = path.with_name(".aside")
        swaps.append(path)
        path.rename(aside)
        path.symlink_to(other)
        try:
            yield
        finally:
            if and_back:
                path.unlink()
                aside.rename(path)

    return swapped


Seam = Callable[[pytest.MonkeyPatch, Swap], None]


def before_parsing(patch: pytest.MonkeyPatch, swapped: Swap) -> None:
    """Swap once all of ingest's own checks are done, and before the child is asked that reads Parquet."""
    real = split_reader.parse_file_safely

    def parse(stream: Any, path: Path, *arguments: Any) -> Iterator[Any]:
        with swapped() if path.stem.startswith("cpu") else nullcontext():
            yield from real(stream, to_place(path), *arguments)

    patch.setattr(split_reader, "parse_file_safely", parse)


def at_opening(number: int) -> Seam:
    """Swap between the look at where links lead and the opening: the digest's, which is the first, or the reader's."""

    def seam(patch: pytest.MonkeyPatch, swapped: Swap) -> None:
        real, opened = entries.open_below, 0

        def open_below(folder: DiskPath, below: str, **options: Any) -> Any:
            nonlocal opened
            opened += "cpu" in below
            if opened != number or "cpu" not in below:
                return real(folder, below, **options)
            with swapped():
                return real(folder, below, **options)

        patch.setattr(entries, "open_below", open_below)
        # In this process, so that the seam is there.
        patch.setattr(formats, "in_child", lambda work, *arguments: work(*arguments))

    return seam


SEAMS: dict[str, Seam] = {
    "before parsing": before_parsing,
    "opening for the digest": at_opening(1),
    "opening to read": at_opening(2),
}

SWAPPED = {"the file": "day/cpu.{}", "its folder": "day"}


@pytest.fixture(params=CONTENTS)
def form(request: pytest.FixtureRequest, tmp_path: DiskPath) -> str:
    """The form of two files of the same size and path, below the landing folder and outside of it."""
    for folder, value in (("landing", INSIDE), ("outside", OUTSIDE)):
        path = tmp_path / folder / "day" / f"cpu.{request.param}"
        path.parent.mkdir(parents=True)
        path.write_bytes(content_of(request.param, value))
    assert len(content_of(request.param, INSIDE)) == len(content_of(request.param, OUTSIDE))
    return request.param


def values(lakehouse: Lakehouse) -> set[float]:
    return set(pl.read_delta(str(lakehouse.events("metrics")))["value"])


@pytest.mark.parametrize("and_back", [False, True], ids=["for good", "and back"])
@pytest.mark.parametrize("what", SWAPPED)
@pytest.mark.parametrize("seam", SEAMS)
def test_no_row_comes_from_outside_whenever_a_link_is_put_in_the_way(
    lakehouse: Lakehouse,
    tmp_path: DiskPath,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    seam: str,
    what: str,
    and_back: bool,
):
    landing, below = tmp_path / "landing", SWAPPED[what].format(form)
    put(landing / "other.json", metric(2))
    swaps: list[Path] = []
    SEAMS[seam](monkeypatch, swap_of(landing / below, tmp_path / "outside" / below, swaps, and_back=and_back))
    summary = ingest(lakehouse, METRICS, landing, runners=local_runners(1))
    assert swaps == [landing / below]
    assert OUTSIDE not in values(lakehouse)
    # A digest that is swapped and put back has found nothing; its file is read as it is.
    if values(lakehouse) == {2.0}:
        assert summary.quarantined + summary.waiting > 0
    else:
        assert (values(lakehouse), seam, and_back) == ({1.0, 2.0}, "opening for the digest", True)


def test_a_link_within_the_folder_is_followed(lakehouse: Lakehouse, tmp_path: DiskPath, form: str):
    landing = tmp_path / "landing"
    (landing / ".files").mkdir()
    (landing / "day" / f"cpu.{form}").rename(landing / ".files" / f"cpu.{form}")
    (landing / "day" / f"cpu.{form}").symlink_to(f"../.files/cpu.{form}")
    # The landing folder may be a link itself: its owner has made it.
    (tmp_path / "link").symlink_to(landing)
    ingest(lakehouse, METRICS, tmp_path / "link", runners=local_runners(1))
    assert values(lakehouse) == {float(INSIDE)}


@pytest.mark.parametrize("what", SWAPPED)
def test_the_search_for_unknown_columns_reads_nothing_outside_either(tmp_path: DiskPath, form: str, what: str):
    landing, below = tmp_path / "landing", SWAPPED[what].format(form)
    path = landing / "day" / f"cpu.{form}"
    assert find_drift(METRICS, [path], landing).unreadable == {}
    with swap_of(landing / below, tmp_path / "outside" / below, [], and_back=True)():
        assert list(find_drift(METRICS, [path], landing).unreadable) == [path]
