"""What holds for `latest_moving_averages` of the default columns, by check name.

`critical` holds back whatever is built on the table; `warning` and `info` are shown and hold nothing back.
"""

from great_expectations.expectations import Expectation, ExpectColumnValuesToBeUnique, UnexpectedRowsExpectation
from great_expectations.expectations.metadata_types import FailureSeverity

from expectations import moving_averages

EXPECTATIONS: dict[str, Expectation] = {
    "one_row_a_station": ExpectColumnValuesToBeUnique(
        column="station_id",
        severity=FailureSeverity.CRITICAL,
        description="A station has one latest row.",
    ),
    **{
        name: moving_averages.EXPECTATIONS[name]
        for name in (
            "station_id_is_there",
            "ends_after_it_starts",
            "reason_is_known",
            "pressure_is_plausible",
            "temp_is_plausible",
        )
    },
    "no_station_lags_behind": UnexpectedRowsExpectation(
        unexpected_rows_query=(
            "SELECT * FROM {batch} WHERE end_time < (SELECT max(end_time) FROM {batch}) - INTERVAL 1 DAY"
        ),
        severity=FailureSeverity.INFO,
        description="The latest window of every station ends within a day of the newest; else it has fallen silent.",
    ),
}
