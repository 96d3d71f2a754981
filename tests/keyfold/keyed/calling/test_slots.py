"""Slots and state partitions: where a key's state lies, and that Spark puts each partition into a task of its own."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.keyed.calling.slots import (
    key_groups_of,
    partition_labels,
    slots_of,
    stable_order,
)
from keyfold.keyed.rows.hashing import key_hash
from tests.keyfold.keyed.toy_jobs import windows


@pytest.mark.parametrize("partitions", [1, 7, 64])
def test_spark_puts_each_partition_into_a_task_of_its_own(spark, partitions):
    labels = partition_labels(partitions)
    rows = spark.session.createDataFrame([(label,) for label in labels], "label int")
    tasks = rows.selectExpr("label", f"pmod(hash(label), {partitions}) AS task").collect()
    assert {row["label"]: row["task"] for row in tasks} == {label: task for task, label in enumerate(labels)}


def test_a_slot_begins_with_the_key_group():
    job = windows(key_groups=5)
    users = pl.DataFrame({"user": [f"user-{number}" for number in range(1_000)]})
    groups = users.select(key_hash(("user",)) % 5).to_series().to_list()
    assert key_groups_of(slots_of(job, users)).tolist() == groups
    assert slots_of(job, users).max() < 2**63


@given(st.lists(st.sampled_from([0, 1, 2, 2**62, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1), max_size=200))
def test_slots_are_sorted_as_python_sorts_them_and_equal_ones_keep_their_order(slots):
    assert stable_order(np.array(slots, np.uint64)).tolist() == sorted(range(len(slots)), key=slots.__getitem__)
