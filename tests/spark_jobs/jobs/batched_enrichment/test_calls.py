"""Many calls at a time: outcomes are kept before they are used, found again, and never an exception."""

import json
import threading

import polars as pl
import pytest

from keyfold.keyed.rows.answers import AnswersInFiles, AnswersInMemory
from spark_jobs.jobs.batched_enrichment.calls import call_all
from spark_jobs.jobs.batched_enrichment.protocol import Batch, Outcome


def batch(first=0, count=2):
    numbers = [json.dumps({"n": number}) for number in range(first, first + count)]
    return Batch("test/0", pl.Series(numbers), pl.Series(numbers))


class Fickle:
    """Says another thing each time it is asked, and notes about what it was."""

    def __init__(self):
        self.asked, self.lock = [], threading.Lock()

    def __call__(self, batch):
        with self.lock:
            self.asked.append(batch.idempotency_key)
            said = len(self.asked)
        return [Outcome(f'"{said}"', 1, 200) if said % 2 else Outcome(None, 3, 503, f"no {said}") for _ in batch.ids]


@pytest.fixture(params=["in memory", "in files"])
def answers(request, tmp_path):
    return AnswersInMemory() if request.param == "in memory" else AnswersInFiles(tmp_path / "answers")


def test_what_was_answered_is_not_asked_again_and_says_the_same(answers):
    service, batches = Fickle(), [batch(0), batch(2), batch(4)]
    first = call_all(batches, service, 2, answers)
    assert len(service.asked) == 3
    assert call_all(batches, service, 2, answers) == first
    assert call_all(batches[::-1], service, 1, answers) == first[::-1]
    assert len(service.asked) == 3


def test_answers_in_files_outlive_the_process_that_kept_them(tmp_path):
    service = Fickle()
    first = call_all([batch(0), batch(2)], service, 2, AnswersInFiles(tmp_path))
    assert call_all([batch(0), batch(2)], service, 2, AnswersInFiles(tmp_path)) == first
    assert len(service.asked) == 2


def test_an_answer_that_cannot_be_kept_is_not_used(tmp_path):
    class Full(AnswersInMemory):
        def keep(self, key, answer):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        call_all([batch()], Fickle(), 2, Full())


def test_batches_that_are_alike_are_one_question_with_one_answer(answers):
    service = Fickle()
    one, other, third = call_all([batch(0), batch(0), batch(2)], service, 4, answers)
    assert one == other != third
    assert len(service.asked) == 2


def test_what_a_call_raises_is_an_outcome():
    def broken(batch):
        raise OSError("the cable")

    outcomes = call_all([batch()], broken, 4, AnswersInMemory())
    assert outcomes == [[Outcome(None, 1, None, "OSError: the cable")] * 2]
    short = call_all([batch(0, 2), batch(2, 3)], lambda _: [], 4, AnswersInMemory())
    assert [len(one) for one in short] == [2, 3]
    assert call_all([], broken, 4, AnswersInMemory()) == []
