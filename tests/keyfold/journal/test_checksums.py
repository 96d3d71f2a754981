"""Checksums are recorded of what is finished: what a run that goes on makes anew is not called damaged."""

from pathlib import Path

import pytest

from keyfold.journal.checksums import differences, read_checksums, record_checksums


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def told(folder: Path) -> list[str]:
    recorded = read_checksums(folder)
    assert recorded is not None
    return [path.name for path, _ in differences(recorded, {"checkpoint": folder / "checkpoint"})]


@pytest.mark.parametrize("done", [0, 1])
@pytest.mark.parametrize("ending", ["zip", "changelog", "delta", "snapshot"])
def test_state_of_a_batch_that_spark_has_not_finished_may_be_made_anew(tmp_path: Path, done: int, ending: str):
    """Also where the batch is done by the journal: Spark makes its state once more before it goes on."""
    checkpoint = tmp_path / "checkpoint"
    write(checkpoint / "commits" / "0", "v1")
    finished = write(checkpoint / "state" / "0" / "3" / f"1.{ending}", "of batch 0")
    opened = write(checkpoint / "state" / "0" / "3" / f"2.{ending}", "of batch 1, which was cut off")
    write(checkpoint / "state" / "0" / "3" / "SSTs" / "000017-a.sst", "rows")
    record_checksums(tmp_path, {"checkpoint": checkpoint}, done)
    opened.write_text("made anew, a little longer than it was")
    assert told(tmp_path) == []

    write(checkpoint / "commits" / "1", "v1")
    record_checksums(tmp_path, {"checkpoint": checkpoint}, 1)
    assert told(tmp_path) == []
    opened.write_text("of another day")
    finished.write_text("of another day")
    assert told(tmp_path) == [finished.name, opened.name]


def test_state_of_a_query_that_has_finished_no_batch_is_left_out(tmp_path: Path):
    state = write(tmp_path / "checkpoint" / "state" / "0" / "0" / "1.zip", "of batch 0, which was cut off")
    record_checksums(tmp_path, {"checkpoint": tmp_path / "checkpoint"}, 0)
    state.write_text("made anew")
    assert told(tmp_path) == []
