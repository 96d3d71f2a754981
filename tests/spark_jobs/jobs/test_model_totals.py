"""Model totals when a person is erased; their rows are those of `test_any_history.py`."""

from keyfold.journal.audit import Author
from keyfold.keyed.conservation import assert_nothing_lost
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job_run import run_job
from keyfold.runs.event_changes import erase
from spark_jobs.jobs.model_totals import MODEL_TOTALS
from spark_jobs.streams import SALES
from tests.keyfold.state.job_histories import put
from tests.spark_jobs.jobs.sales_data import sale, sales_frame

JOB = build_job(MODEL_TOTALS)


def test_what_is_erased_of_a_stream_is_in_no_total(without_spark, lakehouse):
    sales = [sale("cup", 1, 0, models=["a", "b"], customer="eva"), sale("cup", 1, 1, models=["a"], customer="bob")]
    put(lakehouse, "sales", sales_frame(sales))
    run_job(lakehouse, JOB, runners=without_spark)
    put(lakehouse, "sales", sales_frame([sale("cup", 1, 2, models=["a", "b", "c"], customer="eva")]))
    erase(
        lakehouse, SALES, [JOB], {"customer": ["eva"]}, Author("dpo@example.org", "17"), yes=True, runners=without_spark
    )
    assert_nothing_lost(lakehouse, JOB)
    assert run_job(lakehouse, JOB, runners=without_spark).totals.events == 1
