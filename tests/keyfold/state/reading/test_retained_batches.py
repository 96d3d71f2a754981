"""Generations and batches whose state can be read, and what is said of those that cannot."""

import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.generations import RETAINED_BATCHES
from keyfold.state.reading.reader import (
    find_batch,
    find_generation,
    generations_of,
    jobs_with_state,
    retained_batches,
)
from tests.made_generations import put_done, put_generation


def put_branch(lakehouse, job, name):
    put_generation(lakehouse, job, f"branches/{name}", live=False)


def test_generations_are_live_kept_or_branches(lakehouse):
    put_generation(lakehouse, "rides", "generation-0001", live=False)
    put_generation(lakehouse, "rides", "generation-0002")
    put_branch(lakehouse, "rides", "later")
    assert [(one.generation.name, one.role) for one in generations_of(lakehouse, "rides")] == [
        ("generation-0001", "kept"),
        ("generation-0002", "live"),
        ("later", "branch"),
    ]
    assert find_generation(lakehouse, "rides").name == "generation-0002"
    assert find_generation(lakehouse, "rides", "later").folder == lakehouse.job("rides") / "branches" / "later"
    assert jobs_with_state(lakehouse) == ["rides"]
    with pytest.raises(KeyfoldError, match=r"no generation 'generation-0009'; it has generation-0001 \(kept\)"):
        find_generation(lakehouse, "rides", "generation-0009")
    with pytest.raises(KeyfoldError, match=r"no job 'trips' has run.*: rides"):
        find_generation(lakehouse, "trips")


def test_the_last_batch_is_read_unless_another_is_asked_for(lakehouse):
    generation = put_generation(lakehouse, "rides")
    assert find_batch(generation) is None
    done = {batch: put_done(generation, batch) for batch in (3, 4, 5)}
    assert retained_batches(generation) == [3, 4, 5]
    assert find_batch(generation) == done[5]
    assert find_batch(generation, 3) == done[3]
    for batch in (2, 6):
        with pytest.raises(
            KeyfoldError, match=f"rides, generation-0001 has no state of batch {batch}; retained: 3 to 5"
        ):
            find_batch(generation, batch)


def test_a_batch_whose_record_is_kept_longer_than_its_state_is_not_read(lakehouse):
    generation = put_generation(lakehouse, "rides")
    for batch in (0, RETAINED_BATCHES):
        put_done(generation, batch)
    with pytest.raises(KeyfoldError, match="has no state of batch 0"):
        find_batch(generation, 0)
