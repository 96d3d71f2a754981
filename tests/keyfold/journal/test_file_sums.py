"""A file is compared by the checksum that was recorded of it, wherever it lies by then."""

import pytest

from keyfold.journal.checksums import RECORD, differences, read_checksums, record_checksums
from keyfold.storage.place import to_place

KINDS = ["a bucket", "a disk"]


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
