"""The model of what a batch takes finds the prices that made-up measurements were made with; its job adds up."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.scale.balances import START, accounts, balances, bookings, first_state
from benchmarks.scale.model import (
    CHECKPOINT,
    FILES,
    PROCESSOR,
    Model,
    errors_left_out,
    fit,
    relative_errors,
    rewritten_rows,
    touched_groups,
)
from benchmarks.scale.paper import Cluster, Prices, size
from benchmarks.scale.skew import fullest_partition, spark_hash
from keyfold.keyed.harness import TestHarness
from keyfold.keyed.hashing import key_hash

PRICES = {
    "a batch, s": 0.6,
    "a million events, s": 1.5,
    "a thousand key groups, s": 0.3,
    "a thousand key groups with events, s": 1.2,
    "a million rows of state rewritten, s": 0.7,
    "a partition of state, s": 0.02,
}


def made_cells(prices=PRICES, noise=0.0, count=40, seed=1):
    """Cells of a machine with these prices, every measurement off by a random share."""
    chance = np.random.default_rng(seed)
    cells = []
    for _ in range(count):
        cell = {
            "keys": int(10 ** chance.uniform(4, 7)),
            "key_groups": int(2 ** chance.integers(3, 13)),
            "events": int(10 ** chance.uniform(3, 6)),
            "groups_touched": float(chance.choice([1.0, 0.25, 0.0625])),
            "rows_a_key": int(chance.choice([1, 10])),
            "partitions": int(chance.choice([2, 16, 128])),
        }
        exact = sum(prices[name] * term(cell) for name, term in PROCESSOR.items())
        cells.append({**cell, "processor": exact * (1 + noise * chance.normal())})
    return cells


@settings(deadline=None)
@given(st.fixed_dictionaries({name: st.just(0.0) | st.floats(0.01, 10) for name in PRICES}))
def test_prices_without_noise_are_found_as_they_were(prices):
    cells = made_cells({**prices, "a batch, s": max(0.1, prices["a batch, s"])})
    found = fit(cells, "processor", PROCESSOR).prices
    for name, price in prices.items():
        if name != "a batch, s":
            assert found[name] == pytest.approx(price, rel=1e-3, abs=1e-4)


def test_with_noise_of_a_tenth_unseen_cells_are_foretold_within_a_tenth_at_the_median():
    model = fit(made_cells(noise=0.1), "processor", PROCESSOR)
    unseen = made_cells(count=200, seed=2)
    assert np.median(np.abs(relative_errors(model, unseen, "processor"))) < 0.1


def test_a_cell_that_no_price_explains_stands_out_when_it_is_foretold_by_the_others():
    cells = made_cells()
    cells[7] = {**cells[7], "processor": 3 * cells[7]["processor"]}
    errors = np.abs(errors_left_out(cells, "processor", PROCESSOR))
    assert errors.argmax() == 7
    assert errors[7] == pytest.approx(2 / 3, abs=0.02)


def test_no_price_is_negative_where_measurements_would_have_it_so():
    cells = made_cells()
    # Less with more partitions than with few, by chance: the best line would go down.
    cells = [{**cell, "processor": cell["processor"] * (0.9 if cell["partitions"] > 2 else 1.1)} for cell in cells]
    assert min(fit(cells, "processor", PROCESSOR).prices.values()) >= 0


def test_fewer_cells_than_terms_are_refused():
    with pytest.raises(ValueError, match="2 cells cannot say the prices of 3 terms: measure more"):
        fit(made_cells(count=2), "processor", CHECKPOINT)


def test_groups_that_get_events_are_as_many_as_when_they_are_drawn():
    cell = {"key_groups": 512, "groups_touched": 0.5, "events": 300, "keys": 5_000, "rows_a_key": 2}
    chance = np.random.default_rng(3)
    drawn = np.mean([len(np.unique(chance.integers(0, 256, 300))) for _ in range(200)])
    assert touched_groups(cell) == pytest.approx(drawn, rel=0.02)
    assert rewritten_rows(cell) == pytest.approx(10_000 * drawn / 512, rel=0.02)


def test_the_measured_job_adds_every_amount_to_its_account_and_slot():
    harness = TestHarness(balances(4))
    seed = first_state(0, 50, 2)
    harness.state = seed
    events = [bookings(batch, 100, 50, 2, 4, 4) for batch in range(3)]
    for one in events:
        harness.batch(one)
    amounts: dict = {}
    for row in pl.concat([seed, *events]).iter_rows(named=True):
        place = row["account"], row["slot"]
        amounts[place] = amounts.get(place, 0) + row["amount"]
    assert {(row["account"], row["slot"]): row["amount"] for row in harness.state.iter_rows(named=True)} == amounts


def test_events_of_a_batch_keep_to_their_minute_and_to_the_groups_that_are_asked_for():
    rows = bookings(2, 1_000, 10_000, 3, 64, 8)
    groups = rows.select(key_hash(("account",)) % 64).to_series()
    assert set(groups.to_list()) == set(range(8))
    minutes = ((rows["at"] - START).dt.total_microseconds() // 60_000_000).unique().to_list()
    assert minutes == [2]
    assert rows["at"].is_sorted()


def test_no_two_numbers_have_one_account():
    assert accounts(np.arange(1_000_000)).n_unique() == 1_000_000


def test_few_events_meet_few_groups():
    assert touched_groups({"key_groups": 1_000, "groups_touched": 1.0, "events": 1}) == pytest.approx(1, rel=1e-3)
    assert math.isclose(touched_groups({"key_groups": 8, "groups_touched": 1.0, "events": 10_000}), 8)


def test_partitions_are_chosen_as_spark_chooses_them():
    # What Spark 4.2.0 answers to `SELECT hash(0), hash(1), hash(42), hash(32767)`.
    assert spark_hash(np.array([0, 1, 42, 32_767])).tolist() == [933211791, -559580957, 29417773, 1249274084]


def test_the_fullest_of_few_groups_partitions_is_far_above_the_mean_and_of_many_groups_near_it():
    assert fullest_partition(64, 64) > 3
    assert 1 < fullest_partition(32_768, 16) < 1.1


def test_a_cluster_is_sized_as_one_does_it_by_hand():
    by = Prices(
        Model(PROCESSOR, dict.fromkeys(PROCESSOR, 0.0) | {"a million rows of state rewritten, s": 0.5}),
        Model(CHECKPOINT, dict.fromkeys(CHECKPOINT, 0.0) | {"a byte of state rewritten, B": 2.0}),
        Model(FILES, dict.fromkeys(FILES, 0.0) | {"a partition of state": 6.0}),
    )
    cluster = Cluster(
        keys=100_000_000, bytes_a_key=20, events_a_second=1e5, seconds_a_batch=50, key_groups=1_000, partitions=20,
        executors=5, cores=4, store_bytes_a_second=100e6, retained=10, seconds_a_blob=1e-3,
    )  # fmt: skip
    sized = size(cluster, by)
    slower = fullest_partition(1_000, 20)
    # 100 M rows at half a second a million; 20 readers, of which 19 have a thousand blobs more each.
    assert sized.processor == pytest.approx(50 + 19)
    assert sized.work == pytest.approx((50 + 19) / 20 * slower)
    assert sized.checkpoint_bytes == pytest.approx(4e9)
    assert sized.store == pytest.approx(4e9 / 5 / 100e6 * slower)
    assert sized.busy == pytest.approx((sized.work + sized.store) / 50)
    assert sized.checkpoint_files == pytest.approx(120)
    assert sized.requests == pytest.approx((120 + 40) / 50)
    assert sized.kept_bytes == pytest.approx(4e10)
    assert sized.needs == ("a million rows of state rewritten, s", pytest.approx(50 / 69))
