"""Within a process, frames are handed over as they are: with the rows that encoding gives, and none stays in memory."""

import pytest
from polars.testing import assert_frame_equal

from keyfold.keyed.execution import batches
from keyfold.keyed.execution.blobs import Encoded, InMemory, handover_for
from keyfold.keyed.job_run import RunOptions
from keyfold.runners.local_runner import LocalRunner
from tests.keyfold.keyed.toy_jobs import notes, totals, windows
from tests.lake import Lake
from tests.shop import clicks


@pytest.mark.parametrize("handover", [Encoded(), InMemory()], ids=["encoded", "in memory"])
def test_a_frame_is_the_same_after_its_payload(handover):
    few, many = clicks(("ann", 1), ("bob", 2)), clicks(*[("ann", number) for number in range(5000)])
    payloads = [handover.pack(frame) for frame in (few, many[7:4000], few.clear())]
    for payload, frame in zip(payloads, (few, many[7:4000], few.clear()), strict=True):
        assert_frame_equal(handover.unpack(memoryview(payload)), frame)


@pytest.mark.parametrize("job", [windows, totals, notes])
def test_a_run_gives_the_rows_of_encoded_ones_and_keeps_no_frame(tmp_path, monkeypatch, job):
    used, found = [], []

    def of(handover):
        def given(runner):
            used.append(handover())
            return used[-1]

        return given

    for name, choose in (("in_memory", of(InMemory)), ("encoded", of(Encoded))):
        monkeypatch.setattr(batches, "handover_for", choose)
        lake, declared = Lake(tmp_path / name), job()
        lake.click(("ann", 1), ("bob", 2), ("ann", 27))
        lake.click(("ann", 1), ("cat", 45))
        lake.run(declared, options=RunOptions(max_bytes_per_batch=1))
        lake.click(("ann", 52))
        lake.run(declared)
        found.append(lake.rows(declared.name))
    assert found[0] == found[1]
    assert found[0]
    assert {type(one) for one in used} == {Encoded, InMemory}
    assert all(not one._frames for one in used if isinstance(one, InMemory))


def test_frames_are_encoded_for_tasks_of_other_processes():
    class Elsewhere(LocalRunner):
        in_one_process = False

    assert isinstance(handover_for(LocalRunner()), InMemory)
    assert isinstance(handover_for(Elsewhere()), Encoded)
