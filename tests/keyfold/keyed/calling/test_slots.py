"""Slots and state partitions: where a key's state lies, and that Spark puts each partition into a task of its own."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.keyed.calling.slots import (
    are_among,
    distinct,
    key_groups_of,
    partition_labels,
    positions_of,
    slots_of,
    union,
)
from keyfold.keyed.rows.hashing import key_hash
from tests.examples import examples
from tests.keyfold.keyed.toy_jobs import windows


@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 7, 64])
def test_spark_puts_each_partition_into_a_task_of_its_own(spark, partitions):
    labels = partition_labels(partitions)
    rows = spark.createDataFrame([(label,) for label in labels], "label int")
    tasks = rows.selectExpr("label", f"pmod(hash(label), {partitions}) AS task").collect()
    assert {row["label"]: row["task"] for row in tasks} == {label: task for task, label in enumerate(labels)}


def test_a_slot_begins_with_the_key_group():
    job = windows(key_groups=5)
    users = pl.DataFrame({"user": [f"user-{number}" for number in range(1_000)]})
    groups = users.select(key_hash(("user",)) % 5).to_series().to_list()
    assert key_groups_of(slots_of(job, users)).tolist() == groups
    assert slots_of(job, users).max() < 2**63


def test_a_key_has_one_slot_whatever_type_its_column_has_in_state():
    job = windows()
    as_text = pl.DataFrame({"user": ["7"]})
    as_number = pl.DataFrame({"user": [7]})
    assert slots_of(job, as_text).tolist() == slots_of(job, as_number).tolist()


@examples(100)
@given(st.lists(st.integers(0, 20)), st.sets(st.integers(0, 20)))
def test_membership_is_that_of_a_set(slots, wanted):
    ordered = np.array(sorted(wanted), np.uint64)
    assert are_among(np.array(slots, np.uint64), ordered).tolist() == [one in wanted for one in slots]


@examples(100)
@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_slots_that_are_put_together_are_those_of_sets(slots, others):
    one, two = (distinct(np.array(sorted(values), np.uint64)) for values in (slots, others))
    assert one.tolist() == sorted(set(slots))
    assert union(one, two).tolist() == sorted({*slots, *others})


@examples(100)
@given(st.lists(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_positions_are_those_of_all_slots_that_are_wanted(slots, wanted):
    slots, ordered = sorted(slots), np.array(sorted(wanted), np.uint64)
    found = positions_of(np.array(slots, np.uint64), ordered).tolist()
    assert found == [at for at, one in enumerate(slots) if one in wanted]
