"""A check names whatever file of a lakehouse is not what was written, wherever a bit of it has changed."""

import json
import random
import shutil
from datetime import timedelta

import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.maintenance import checking
from keyfold.maintenance.checking import check
from tests.chained_jobs import DAILY, HOURLY, Chain
from tests.shop import NOON

SEED = random.Random()


@pytest.fixture(autouse=True)
def look_once(monkeypatch):
    monkeypatch.setattr(checking, "_TRIES", 1)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A chain that has run several times, with time that went on without events."""
    site = Chain(tmp_path_factory.mktemp("ran") / "home")
    for minute in (0, 70, 2000):
        site.click(("ann", minute), ("bob", minute + 1))
        for job in (HOURLY, DAILY):
            site.run(job)
    site.run(HOURLY, Incremental(NOON + timedelta(days=3)))
    site.run(DAILY)
    return site


@pytest.fixture
def site(ran, tmp_path):
    return ran.copied(tmp_path / "home", ran.spark)


def damaged(site):
    return {finding.path for finding in check(site.lakehouse) if finding.is_damage}


def test_a_bit_that_flips_anywhere_in_a_record_is_found_and_its_file_is_named(site):
    assert check(site.lakehouse) == []
    home = site.lakehouse.home
    records = [home / "live.json", *home.glob("*/*/**/journal/*.json"), *home.glob("jobs/*/*/state/manifests/*")]
    kinds = {"".join(record.suffixes) for record in records}
    assert kinds == {".json", ".plan.json", ".done.json", ".parquet"}
    unseen = []
    for record in records:
        content = record.read_bytes()
        at, bit = SEED.randrange(len(content)), SEED.randrange(8)
        record.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
        if str(record) not in damaged(site):
            unseen.append((str(record.relative_to(home)), at, bit))
        record.write_bytes(content)
    assert unseen == []
    assert check(site.lakehouse) == []


def test_a_batch_that_lacks_a_record_is_found_unless_the_history_has_it(site, monkeypatch):
    journal = site.lake.live("hourly").journal
    batches = journal.kept()
    assert len(batches) > 2
    for batch in batches[:-1]:
        for kind in ("plan", "done"):
            record, content = journal.path(batch, kind), journal.path(batch, kind).read_bytes()
            record.unlink()
            assert str(record) in damaged(site), (batch, kind)
            record.write_bytes(content)
    monkeypatch.setattr("keyfold.journal.journal.KEPT", 1)
    journal.compact()
    assert journal.kept() == batches[-1:]
    assert check(site.lakehouse) == []
    journal.history_path.unlink()
    assert str(journal.path(batches[0], "done")) in damaged(site)


def test_a_bit_that_flips_in_the_content_of_another_file_is_left_to_the_store(site):
    """A check reads no data; whoever reads it does (`tests/chaos/test_any_damage.py`)."""
    for file in [*site.lakehouse.home.rglob("part-*.parquet"), *site.lakehouse.home.glob("jobs/*/*/state/parts/*")]:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    assert check(site.lakehouse) == []


def test_only_what_is_found_in_every_attempt_is_told(site, monkeypatch):
    looks = iter(range(9))

    def look(findings):
        findings.add("stays", "is gone")
        findings.add(f"comes and goes {next(looks)}", "is gone")

    monkeypatch.setattr(checking, "_TRIES", 3)
    monkeypatch.setattr(checking, "_owners", lambda _: [("restore it", look)])
    assert damaged(site) == {"stays"}
    assert next(looks) == 3


def test_a_generation_whose_record_has_lost_any_of_its_fields_is_named(site):
    record = site.lake.live("hourly").folder / "generation.json"
    content = record.read_text()
    for name in json.loads(content):
        record.write_text(content.replace(f'"{name}"', f'"{name}x"'))
        assert str(record) in damaged(site), name
    record.write_text(content)


def test_a_clock_record_that_says_a_later_year_is_damaged_for_the_check_and_for_the_job(site):
    record = site.lake.live("hourly").folder / "journal" / "clock.json"
    content = record.read_bytes()
    record.write_bytes(content.replace(b'"processing_time":"20', b'"processing_time":"30'))
    assert record.read_bytes() != content
    assert damaged(site) == {str(record)}
    with pytest.raises(KeyfoldError, match=r"clock.json is damaged.*its checksum is another one"):
        site.run(HOURLY)


@pytest.mark.parametrize(
    "content",
    [
        {"hourly": {"feneration": "generation-0001"}},
        {"hourly": {"generation": "../../elsewhere"}},
        {"hourly": {"generation": 1}},
        {"hourly": {"generation": "generation-0001", "replaces": "../generation-0001"}},
        {"../hourly": {"generation": "generation-0001"}},
        ["hourly"],
    ],
)
def test_a_live_record_that_names_no_generation_is_damaged_for_the_check_and_for_the_job(site, content):
    record = site.lakehouse.home / "live.json"
    record.write_text(json.dumps(content))
    assert str(record) in damaged(site)
    with pytest.raises(KeyfoldError, match=r"live\.json is damaged, while generation-0001 exists"):
        site.run(HOURLY)


def test_a_job_whose_folder_is_gone_is_named_by_its_tables(site):
    home = site.lakehouse.home
    shutil.rmtree(str(site.lakehouse.job("hourly")))
    consumer = site.lake.live("daily").folder / "journal"
    assert damaged(site) == {str(home / "tables" / "hourly"), str(consumer)}
    shutil.rmtree(str(home / "jobs"))
    (home / "live.json").unlink()
    # Those of late events have no rows: a start that was cut off makes such, too.
    assert damaged(site) == {str(home / "tables" / name) for name in ("hourly", "daily")}


def test_a_file_that_is_gone_before_a_job_has_read_it_is_told_of_the_job_too(site):
    events = site.lakehouse.events("clicks")
    read = set(events.glob("*.parquet"))
    site.click(("cat", 3000))
    (new,) = set(events.glob("*.parquet")) - read
    new.unlink()
    faults = {finding.path: finding.fault for finding in check(site.lakehouse)}
    assert "cannot go on (job hourly" in faults[str(site.lake.live("hourly").folder / "journal")]
    assert str(new) in faults
