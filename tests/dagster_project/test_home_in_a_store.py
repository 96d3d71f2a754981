"""What is wrong with a home in a store is told by the run that meets it, in words; it keeps nothing from loading."""

import os

import dagster as dg
import pytest

from keyfold.dagster import Keyfold, KeyfoldResource
from tests.faulty_store import Fault, faulty_store


@dg.asset
def uses(keyfold: dg.ResourceParam[Keyfold]) -> None: ...


def failure(home: str) -> str:
    """The error of a run on a home; empty if it has none."""
    with dg.DagsterInstance.ephemeral() as instance:
        resources = {"keyfold": KeyfoldResource(home, "local")}
        run = dg.materialize([uses], instance=instance, resources=resources, raise_on_error=False)
        events = [record.dagster_event for record in instance.all_logs(run.run_id)]
    return "".join(str(event) for event in events if event and "FAILURE" in event.event_type_value)


def test_a_home_that_is_there_and_one_on_a_disk_are_passed_over(bucket, tmp_path):
    assert failure(f"s3a://{bucket}/not/yet/there") == failure(str(tmp_path)) == ""


def test_a_bucket_that_is_not_there_is_told_with_the_remedy(bucket):
    assert "has no bucket no-such-bucket; create it, or name another" in failure("s3a://no-such-bucket/home")


@pytest.mark.parametrize(
    ("fault", "told"), [(Fault.DENIED, "refuses these credentials"), (Fault.CUT, "does not answer")]
)
def test_a_store_that_refuses_or_cuts_off_is_told_in_words(object_store, bucket, monkeypatch, fault, told):
    with faulty_store(object_store.endpoint) as faulty:
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
        faulty.choose = lambda _: fault
        found = failure(f"s3a://{bucket}/home")
    assert told in found
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in found
