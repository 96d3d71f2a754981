"""A place in a bucket does what a path of a disk does, as far as a home relies on it."""

import pickle
import threading
from pathlib import PurePosixPath

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from keyfold.errors import KeyfoldError, Locked
from keyfold.storage.bucket_path import BucketPath
from keyfold.storage.place import to_place
from tests.examples import examples
from tests.faulty_store import Fault, faulty_store

# No %: moto, behind a server of its own, takes what it escapes twice.
NAMES = st.text("ab .+é=", min_size=1, max_size=4).filter(lambda name: name.strip(".") and name == name.strip())


@pytest.fixture
def folder(bucket_url):
    return BucketPath(f"{bucket_url}/a home")


@pytest.mark.parametrize("text", ["s3a://", "s3:///key", "s3a://bucket/a/../b", "gs://", "az:///folder"])
def test_what_names_no_place_in_a_bucket_is_refused(text):
    with pytest.raises(KeyfoldError, match=r"s3://BUCKET/FOLDER|which an object store does not have"):
        to_place(text)


def test_parts_of_a_place_are_those_of_a_path():
    place = to_place("s3://lake/home/jobs/x.plan.json")
    assert isinstance(place, BucketPath)
    assert str(place) == "s3a://lake/home/jobs/x.plan.json"
    assert (place.name, place.stem, place.suffix) == ("x.plan.json", "x.plan", ".json")
    assert [str(one) for one in place.parents] == ["s3a://lake/home/jobs", "s3a://lake/home", "s3a://lake"]
    assert place.relative_to(BucketPath("s3a://lake/home")) == PurePosixPath("jobs/x.plan.json")
    assert pickle.loads(pickle.dumps(place)) == place  # noqa: S301 - made in this line
    assert {place, BucketPath(str(place))} == {place}


@examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    written=st.dictionaries(st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.binary(max_size=5), max_size=6)
)
def test_what_is_written_is_found_as_on_a_disk(folder, tmp_path_factory, written):
    on_disk = tmp_path_factory.mktemp("disk")
    root = folder / on_disk.name
    for name, content in written.items():
        path = on_disk / name
        # On a disk a file is no folder.
        if path.is_dir() or any(parent.is_file() for parent in path.parents):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        (root / name).write_bytes(content)
    for path in [on_disk, *on_disk.rglob("*")]:
        name = path.relative_to(on_disk).as_posix()
        place = root / name if name != "." else root
        assert place.is_file() == path.is_file()
        # A folder of nothing is there on a disk alone.
        if path.is_dir() and any(path.iterdir()):
            assert place.is_dir()
            for pattern in ("*", "a*", "[!a]*", "*/*"):
                expected = sorted(one.relative_to(on_disk).as_posix() for one in path.glob(pattern))
                assert sorted(one.relative_to(root).as_posix() for one in place.glob(pattern)) == expected
        elif path.is_file():
            assert place.read_bytes() == path.read_bytes()
            assert place.stat().st_size == path.stat().st_size
    root.remove_tree()
    assert not root.exists()


def test_what_is_not_there_says_so_as_on_a_disk(folder):
    for read in (folder.read_bytes, folder.read_with_tag, folder.stat, folder.unlink, folder.open_for_reading):
        with pytest.raises(FileNotFoundError, match="a home is not there"):
            read()
    folder.unlink(missing_ok=True)
    assert list(folder.iterdir()) == []


def test_of_many_that_create_an_object_one_has(folder):
    place, won, barrier = folder / "one", [], threading.Barrier(8)

    def create(number):
        barrier.wait()
        try:
            place.create(b"%d" % number)
        except FileExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [place.read_bytes()] == [b"%d" % number for number in won]


def test_an_object_is_replaced_only_while_it_is_the_one_that_was_read(folder):
    place = folder / "pointer"
    first = place.create(b"1")
    second = place.write_if_unchanged(b"2", first)
    with pytest.raises(FileExistsError):
        place.write_if_unchanged(b"3", first)
    assert place.read_with_tag() == (b"2", second)
    place.unlink()
    with pytest.raises(FileExistsError):
        place.write_if_unchanged(b"3", second)


def test_an_object_that_was_deleted_is_not_replaced_whatever_the_store_answers(object_store, bucket, monkeypatch):
    # Amazon's answer is that there is no such key; the emulator's, that the condition does not hold.
    path = BucketPath(f"s3a://{bucket}/pointer")
    tag = path.create(b"1")
    with faulty_store(object_store.endpoint) as faulty:
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
        faulty.choose = lambda request: Fault.DELETED if request.conditional else None
        with pytest.raises(FileExistsError):
            path.write_if_unchanged(b"2", tag)
        with pytest.raises(Locked, match="was written by another run"):
            path.replace_content(b"2", tag)
        assert faulty.count(Fault.DELETED) == 2
        assert path.read_bytes() == b"1"


def test_a_reader_seeks_as_a_file_does(folder):
    content = bytes(range(256)) * 1000
    (folder / "file").write_bytes(content)
    with (folder / "file").open_for_reading() as file:
        file.seek(-300, 2)
        assert file.read(10) == content[-300:-290]
        file.seek(100_000)
        assert file.read() == content[100_000:]


def test_hadoop_s_empty_objects_that_stand_for_folders_count_for_nothing(object_store, bucket):
    import urllib.request  # noqa: PLC0415 - for what our own code never writes

    for name in ("home/commits/", "home/empty/", "home/"):
        request = urllib.request.Request(f"{object_store.endpoint}/{bucket}/{name}", method="PUT", data=b"")  # noqa: S310
        urllib.request.urlopen(request, timeout=30).close()  # noqa: S310
    home = BucketPath(f"s3a://{bucket}/home")
    assert not home.exists()
    (home / "commits" / "0").write_bytes(b"v1")
    (home / "an empty file").write_bytes(b"")
    assert sorted(one.name for one in home.iterdir()) == ["an empty file", "commits"]
    assert sorted(one.name for one in home.rglob("*")) == ["0", "an empty file"]


def test_a_bucket_that_is_not_there_is_named(bucket_url):
    scheme = bucket_url.partition(":")[0]
    if scheme == "gs":
        pytest.skip("the emulator does not say it")
    for use in (
        lambda place: place.write_bytes(b""),
        lambda place: list(place.iterdir()),
        lambda place: place.create(b""),
    ):
        with pytest.raises(KeyfoldError, match=r"http://127.0.0.1:\d+ has no bucket no-such-bucket; create it"):
            use(BucketPath(f"{scheme}://no-such-bucket/x"))


def test_what_a_store_says_of_its_trouble_is_told_in_a_line_without_secrets(object_store, bucket, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-of-mine")
    with faulty_store(object_store.endpoint) as faulty:
        # A proxy before the store that says what it should not.
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"{faulty.endpoint}/a-secret-of-mine")
        with pytest.raises((OSError, KeyfoldError)) as refused:
            BucketPath(f"s3a://{bucket}/x").write_bytes(b"")
    told = str(refused.value)
    assert "\n" not in told
    assert "a-secret-of-mine" not in told
    assert refused.value.__cause__ is None
