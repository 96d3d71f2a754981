"""State is rewritten only where tables have all of the last batch: what they lack would stay behind without a word."""

import pytest
from deltalake import write_deltalake

from keyfold.errors import KeyfoldError
from keyfold.keyed.runner import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import count_rows
from keyfold.state.changing.state_rewriting import last_batch
from tests.keyfold.keyed.toy_jobs import clicks, totals
from tests.lake import Lake


@pytest.mark.parametrize("damage", ["gone", "empty"])
def test_a_table_that_lacks_its_last_commit_is_refused_until_a_run_has_made_it_again(without_spark, tmp_path, damage):
    lakehouse = Lakehouse(tmp_path / "home")
    for number in range(2):
        write_deltalake(str(lakehouse.events("clicks")), clicks(("ann", number)), mode="append")
        run_job(lakehouse, totals(), runners=without_spark)
    generation = Lake(lakehouse).live("totals")
    assert last_batch(totals(), generation).batch == 1
    newest = max((generation.table("changes") / "_delta_log").glob("*.json"))
    newest.unlink() if damage == "gone" else newest.write_bytes(b"")
    with pytest.raises(KeyfoldError, match=r"lacks its last batch; run the job once first.*`keyfold run totals`"):
        last_batch(totals(), generation)
    run_job(lakehouse, totals(), runners=without_spark)
    assert last_batch(totals(), generation).batch == 1
    assert count_rows(generation.table("changes")) == 2
