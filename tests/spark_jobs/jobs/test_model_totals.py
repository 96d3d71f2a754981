"""The step of model totals, without Spark, against a dictionary in plain Python and against DuckDB."""

from datetime import timedelta

from keyfold.keyed.job.building import build_job
from keyfold.keyed.reporting.conservation import assert_nothing_lost
from keyfold.keyed.runner import run_job
from keyfold.runs.erasing import erase
from keyfold.state.changing.audit import Author
from keyfold.testing import merged, play
from spark_jobs.jobs.model_totals import MODEL_TOTALS
from spark_jobs.streams import SALES
from tests.keyfold.state.job_histories import put
from tests.spark_jobs.jobs.sales_data import NOON, sale, sales_frame

JOB = build_job(MODEL_TOTALS)


def totals(batches, parts=1, cuts=()):
    """What the table shows at last: (model, quantity, purchases, latest)."""
    return merged(play(JOB, [sales_frame(batch) for batch in batches], None, parts, cuts), JOB, "model_totals").rows()


def minutes(count):
    return NOON + timedelta(minutes=count)


def test_a_purchase_of_several_models_counts_for_each():
    sales = [
        sale("Watch", 2, 0, models=["7", "8"]),
        sale("Watch", 3, 2, models=["8"]),
        sale("Phone", 1, 1, models=["7"]),
    ]
    assert totals([sales]) == [("7", 3, 2, minutes(1)), ("8", 5, 2, minutes(2))]


def test_only_models_that_were_bought_are_written_again():
    harness = play(JOB, [sales_frame([sale(models=["7"])]), sales_frame([sale(models=["8"])])])
    assert harness.written["model_totals"]["model"].to_list() == ["7", "8"]


def test_what_is_erased_of_a_stream_is_in_no_total(without_spark, lakehouse):
    sales = [sale("cup", 1, 0, models=["a", "b"], customer="eva"), sale("cup", 1, 1, models=["a"], customer="bob")]
    put(lakehouse, "sales", sales_frame(sales))
    run_job(lakehouse, JOB, runners=without_spark)
    put(lakehouse, "sales", sales_frame([sale("cup", 1, 2, models=["a", "b", "c"], customer="eva")]))
    erase(lakehouse, SALES, [JOB], {"customer": ["eva"]}, Author("dpo@example.org", "17"), runners=without_spark)
    assert_nothing_lost(lakehouse, JOB)
    assert run_job(lakehouse, JOB, runners=without_spark).totals.events == 1
