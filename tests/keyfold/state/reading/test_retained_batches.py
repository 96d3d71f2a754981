"""Generations and batches whose state can be read, and what is said of those that cannot."""

import json
import zipfile

import pytest

from keyfold.errors import KeyfoldError
from keyfold.state.reading.retained_batches import (
    find_batch,
    find_generation,
    generations_of,
    jobs_with_state,
    retained_batches,
)
from tests.made_generations import finish, put_generation

SST = b"x" * 40
FAMILIES = {"default": 1, "partition_state": 2}


def put_state(generation, *batches, partitions=2, families=FAMILIES):
    """State of batches, as RocksDB's files lie in a checkpoint."""
    for batch in batches:
        finish(generation.checkpoint, batch)
        for partition in range(partitions):
            folder = generation.checkpoint / "state" / "0" / str(partition)
            (folder / "SSTs").mkdir(parents=True, exist_ok=True)
            name = f"{batch}-{partition}.sst"
            (folder / "SSTs" / name).write_bytes(SST)
            made = {
                "sstFiles": [{"localFileName": "1.sst", "dfsSstFileName": name, "sizeBytes": len(SST)}],
                "columnFamilyMapping": families,
            }
            with zipfile.ZipFile(folder / f"{batch + 1}.zip", "w") as archive:
                archive.writestr("metadata", f"v1\n{json.dumps(made)}")


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


def test_the_last_finished_batch_is_read_unless_another_is_asked_for(lakehouse):
    generation = put_generation(lakehouse, "rides")
    assert find_batch(generation) is None
    put_state(generation, 3, 4, 5)
    assert retained_batches(generation) == [3, 4, 5]
    assert find_batch(generation) == 5
    assert find_batch(generation, 3) == 3
    for batch in (2, 6):
        with pytest.raises(
            KeyfoldError, match=f"rides, generation-0001 has no state of batch {batch}; retained: 3 to 5"
        ):
            find_batch(generation, batch)


def test_a_batch_that_has_begun_and_is_not_finished_is_not_read(lakehouse):
    generation = put_generation(lakehouse, "rides")
    put_state(generation, 0, 1)
    (generation.checkpoint / "commits" / "1").unlink()
    assert find_batch(generation) == 0
    assert retained_batches(generation) == [0]


def remove_archive(folder):
    (folder / "3.zip").unlink()


def break_archive(folder):
    (folder / "3.zip").write_bytes(b"PK not")


def remove_file(folder):
    (folder / "SSTs" / "2-1.sst").unlink()


def truncate_file(folder):
    (folder / "SSTs" / "2-1.sst").write_bytes(SST[:7])


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (remove_archive, "is not whole: missing .*/0/1/3.zip"),
        (break_archive, "0/1/3.zip, state of batch 2, cannot be read"),
        (remove_file, "SSTs/2-1.sst, of the state of batch 2, is missing"),
        (truncate_file, "SSTs/2-1.sst, of the state of batch 2, has 7 bytes and should have 40"),
    ],
)
def test_what_is_damaged_is_named_and_what_else_can_be_read(lakehouse, damage, told):
    generation = put_generation(lakehouse, "rides")
    put_state(generation, 0, 1, 2)
    damage(generation.checkpoint / "state" / "0" / "1")
    with pytest.raises(KeyfoldError, match=told) as error:
        find_batch(generation)
    assert "restore it from a backup, or read another batch (retained: 0 to 1)" in str(error.value)
    assert find_batch(generation, 1) == 1


def test_a_checkpoint_of_another_query_is_no_state_of_a_job(lakehouse):
    generation = put_generation(lakehouse, "rides")
    put_state(generation, 0, families={"default": 1, "total": 2})
    with pytest.raises(KeyfoldError, match=r"holds no state of a keyed job \(its variables: total\).*--checkpoint"):
        find_batch(generation)
