"""Many calls at a time: outcomes are kept before they are used, found again, and never an exception."""

import asyncio
import json
from contextlib import nullcontext

import polars as pl
import pytest

from keyfold.keyed.rows.response_cache import ResponsesInFiles, ResponsesInMemory
from spark_jobs.jobs.batched_enrichment import job
from spark_jobs.jobs.batched_enrichment.protocol import Batch, Outcome


def batch(first=0, count=2):
    numbers = [json.dumps({"n": number}) for number in range(first, first + count)]
    return Batch("test/0", pl.Series(numbers), pl.Series(numbers))


def call_all(batches, call, max_in_flight, cache):
    return asyncio.run(job.call_all(batches, lambda: nullcontext(call), max_in_flight, cache))


class Fickle:
    """Says another thing each time it is asked, and notes about what it was."""

    def __init__(self):
        self.asked = []

    async def __call__(self, batch):
        self.asked.append(batch.idempotency_key)
        said = len(self.asked)
        await asyncio.sleep(0)
        return [Outcome(f'"{said}"', 1, 200) if said % 2 else Outcome(None, 3, 503, f"no {said}") for _ in batch.ids]


@pytest.fixture(params=["in memory", "in files"])
def cache(request, tmp_path):
    return ResponsesInMemory() if request.param == "in memory" else ResponsesInFiles(tmp_path / "responses")


def test_what_was_answered_is_not_asked_again_and_says_the_same(cache):
    service, batches = Fickle(), [batch(0), batch(2), batch(4)]
    first = call_all(batches, service, 2, cache)
    assert len(service.asked) == 3
    assert call_all(batches, service, 2, cache) == first
    assert call_all(batches[::-1], service, 1, cache) == first[::-1]
    assert len(service.asked) == 3


def test_answers_in_files_outlive_the_process_that_kept_them(tmp_path):
    service = Fickle()
    first = call_all([batch(0), batch(2)], service, 2, ResponsesInFiles(tmp_path))
    assert call_all([batch(0), batch(2)], service, 2, ResponsesInFiles(tmp_path)) == first
    assert len(service.asked) == 2


def test_an_answer_that_cannot_be_kept_is_not_used(tmp_path):
    class Full(ResponsesInMemory):
        def keep(self, key, response):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        call_all([batch()], Fickle(), 2, Full())


def test_batches_that_are_alike_are_one_question_with_one_answer(cache):
    service = Fickle()
    one, other, third = call_all([batch(0), batch(0), batch(2)], service, 4, cache)
    assert one == other != third
    assert len(service.asked) == 2


def test_what_a_call_raises_is_an_outcome():
    async def broken(batch):
        raise OSError("the cable")

    outcomes = call_all([batch()], broken, 4, ResponsesInMemory())
    assert outcomes == [[Outcome(None, 1, None, "OSError: the cable")] * 2]
    assert call_all([], broken, 4, ResponsesInMemory()) == []


def test_as_many_calls_run_at_a_time_as_may_and_no_more():
    running = most = 0

    async def slow(batch):
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        await asyncio.sleep(0.01)
        running -= 1
        return [Outcome("1", 1, 200)] * len(batch)

    call_all([batch(2 * at) for at in range(9)], slow, 3, ResponsesInMemory())
    assert most == 3
