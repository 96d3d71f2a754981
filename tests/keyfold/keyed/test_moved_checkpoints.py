"""Checkpoints that were moved: Spark has written into them, by their whole path, where they were."""

import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.checkpoint import check_is_readable, follow_move
from keyfold.storage.place import to_place

SCHEMA = "checkpoint/state/0/_stateSchema/default/0_made"


def put(checkpoint, *places):
    """What describes an operator, once for each time that it was written, and where that was."""
    metadata = checkpoint / "state" / "0" / "_metadata" / "v2"
    for number, place in enumerate(places):
        metadata.mkdir(parents=True, exist_ok=True)
        (metadata / str(number)).write_text(f'v2\n{{"schemas":["{place}/{SCHEMA}"]}}')
    return metadata


def test_one_in_a_bucket_is_refused_until_its_own_place_stands_in_it(bucket):
    here = f"s3a://{bucket}/home/generation-0002"
    checkpoint = to_place(f"{here}/checkpoint")
    metadata = put(checkpoint, f"s3a://{bucket}/home/branches/again", f"s3a://{bucket}/home/branches/again")
    with pytest.raises(KeyfoldError, match=rf"{checkpoint} was moved here, .* run the job once"):
        check_is_readable(checkpoint)
    follow_move(checkpoint)
    check_is_readable(checkpoint)
    assert [(metadata / str(number)).read_text() for number in range(2)] == [
        f'v2\n{{"schemas":["{here}/{SCHEMA}"]}}'
    ] * 2


def test_one_on_a_disk_is_read_where_it_is_and_follows_as_well(tmp_path):
    checkpoint = tmp_path / "here" / "checkpoint"
    metadata = put(checkpoint, "file:/elsewhere")
    (metadata / ".0.crc").write_bytes(b"of what was there before")
    check_is_readable(checkpoint)
    follow_move(checkpoint)
    assert (metadata / "0").read_text() == f'v2\n{{"schemas":["file:{tmp_path}/here/{SCHEMA}"]}}'
    assert not (metadata / ".0.crc").exists()
