"""The faults of tests are faults: what the proxy loses was done, what it cuts was not."""

from collections.abc import Iterator

import pytest

from keyfold.storage.object_path import ObjectPath
from tests.faulty_store import Fault, FaultyStore, faulty_store
from tests.object_store import ObjectStore


@pytest.fixture
def faulty(object_store: ObjectStore, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyStore]:
    with faulty_store(object_store.endpoint) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.endpoint)
        yield store


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.CUT, Fault.LOST, Fault.SLOW])
def test_a_write_that_meets_a_fault_once_is_made_in_the_end(faulty: FaultyStore, bucket: str, fault: Fault) -> None:
    faulty.delay = 0.1
    faulty.choose = lambda request: fault if request.number == 0 else None
    place = ObjectPath(f"s3a://{bucket}/folder/file")
    place.write_bytes(b"content")
    assert place.read_bytes() == b"content"
    assert faulty.count(fault) == 1


def test_an_answer_that_is_lost_was_to_a_write_that_happened(faulty: FaultyStore, bucket: str) -> None:
    place = ObjectPath(f"s3a://{bucket}/file")
    faulty.choose = lambda request: Fault.LOST if request.conditional and not request.number else None
    # The first attempt was done, so that the client's second one finds the object there: nobody knows whose it is.
    with pytest.raises(FileExistsError):
        place.create(b"mine")
    assert [request.method for request, _ in faulty.came] == ["PUT", "PUT"]
    assert place.read_bytes() == b"mine"
