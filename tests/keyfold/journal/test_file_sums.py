"""A file is compared by the checksum that was recorded of it, wherever it lies by then."""

import hashlib

import pytest

from keyfold.journal.checksums import RECORD, differences, read_checksums, record_checksums, without_tags
from keyfold.lakehouse.checksums import checksum_of_bytes
from keyfold.lakehouse.files import read_with_tag
from keyfold.storage.place import to_place

KINDS = ["a bucket", "a disk"]


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=32).hexdigest()


@pytest.fixture
def new_place(request, tmp_path):
    """Makes a folder of a kind, by its name."""

    def make(kind, name):
        return to_place(f"s3a://{request.getfixturevalue('bucket')}/{name}" if kind == "a bucket" else tmp_path / name)

    return make


def write(home, files):
    for name, content in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


FILES = {
    "table/00000000000000000000.json": b"{}",
    "seed": b"seed",
}


def parts(home):
    return {"tables/one": home / "table", "seed": home / "seed"}


def faults(home, recorded):
    return sorted(path.name for path, _ in differences(recorded, parts(home)))


@pytest.mark.parametrize("of", KINDS)
@pytest.mark.parametrize("to", KINDS)
def test_a_copy_in_another_place_is_as_it_was_and_is_recorded_as_of_that_place(new_place, of, to):
    home, copy = new_place(of, "home"), new_place(to, "copy")
    write(home, FILES)
    record_checksums(home / "journal", parts(home), 0)
    write(copy, {**FILES, f"journal/{RECORD}": (home / "journal" / RECORD).read_bytes()})
    assert faults(copy, read_checksums(copy / "journal")) == []
    record_checksums(copy / "journal", parts(copy), 0)
    recorded = read_checksums(copy / "journal")
    write(copy, {"seed": b"deed"})
    assert faults(copy, recorded) == ["seed"]
    record_checksums(copy / "journal", parts(copy), 0)
    assert faults(copy, read_checksums(copy / "journal")) == ["seed"]


def test_a_copy_of_what_a_store_has_encrypted_is_compared_by_digests_in_place_of_tags(tmp_path, bucket):
    home, copy = to_place(f"s3a://{bucket}/home"), tmp_path / "copy"
    write(home, FILES)
    record_checksums(home / "journal", parts(home), 0)
    record = (home / "journal" / RECORD).read_bytes()
    # As of a store whose tags say nothing of the content.
    tags = {read_with_tag(home / name)[1].strip('"'): f"{number:032x}" for number, name in enumerate(FILES)}
    encrypted = text = record.partition(b"\n")[2].decode()
    for tag, other in tags.items():
        encrypted = encrypted.replace(tag, other)
    assert encrypted != text
    encrypted = f"{checksum_of_bytes(encrypted.encode())}\n{encrypted}".encode()
    digests = {f'"{number:032x}"': digest(content) for number, content in enumerate(FILES.values())}
    write(copy, {**FILES, f"journal/{RECORD}": encrypted})
    assert faults(copy, read_checksums(copy / "journal")) == ["00000000000000000000.json", "seed"]
    write(copy, {f"journal/{RECORD}": without_tags(encrypted, digests)})
    assert faults(copy, read_checksums(copy / "journal")) == []
    write(copy, {"seed": b"deed"})
    assert faults(copy, read_checksums(copy / "journal")) == ["seed"]


def test_a_record_that_is_damaged_or_has_no_tags_is_copied_as_it_is(tmp_path):
    write(tmp_path, FILES)
    record_checksums(tmp_path / "journal", parts(tmp_path), 0)
    record = (tmp_path / "journal" / RECORD).read_bytes()
    assert without_tags(record, {}) == record
    assert without_tags(record, {'"tag"': digest(b"seed")}) == record
    assert without_tags(b"torn" + record, {'"tag"': digest(b"seed")}) == b"torn" + record
