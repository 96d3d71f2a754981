"""What alerts say: what has begun to fail, what passes again, in one message."""

from dataclasses import replace

from dagster_project.automation.alert_messages import Evaluation, Notice, changes, line, message

ROWS = Evaluation("rows_add_up", "events", False, "ERROR", True, "3 rows lack", "run-1", "rides", 1)
PASSED = replace(ROWS, passed=True, run="run-2")
ODD = replace(ROWS, check="fare", severity="WARN", blocking=False, description="")


def kinds(evaluations: list[Evaluation], failing: dict[str, str] | None = None) -> list[tuple[str, str]]:
    return [(notice.kind, notice.of.check) for notice in changes(evaluations, failing or {})[0]]


def test_a_check_is_told_of_when_it_begins_to_fail_and_not_while_it_goes_on():
    notices, failing = changes([ROWS, ROWS], {})
    assert [notice.kind for notice in notices] == ["failed"]
    assert failing == {"events: rows_add_up": "ERROR"}
    assert kinds([ROWS], failing) == []


def test_a_check_that_passes_again_is_told_of_once():
    assert kinds([PASSED, PASSED], {"events: rows_add_up": "ERROR"}) == [("recovered", "rows_add_up")]
    assert kinds([PASSED]) == []


def test_what_fails_and_recovers_between_two_ticks_is_told_both_ways():
    assert kinds([ROWS, PASSED, ROWS]) == [(kind, "rows_add_up") for kind in ("failed", "recovered", "failed")]


def test_a_warning_that_becomes_an_error_is_told_of_anew():
    assert kinds([replace(ODD, severity="ERROR")], {"events: fare": "WARN"}) == [("failed", "fare")]
    assert kinds([ODD], {"events: fare": "ERROR"}) == []


def test_checks_of_one_name_on_two_assets_are_two():
    assert len(kinds([ROWS, replace(ROWS, asset="summaries")])) == 2


def test_a_line_says_what_failed_how_badly_and_where():
    assert line(Notice("failed", ROWS)) == (
        "failed: events: rows_add_up [ERROR, blocks what is downstream] 3 rows lack (run run-1 of rides)"
    )
    assert line(Notice("failed", ODD)) == "failed: events: fare [WARN] no description (run run-1 of rides)"
    assert line(Notice("recovered", PASSED)) == "recovered: events: rows_add_up (run run-2 of rides)"


def test_many_failures_are_one_message_that_names_twenty_and_holds_all():
    notices = [Notice("failed", replace(ROWS, check=f"check_{number}")) for number in range(50)]
    content = message([*notices, Notice("recovered", PASSED)])
    lines = content["text"].splitlines()
    assert lines[0] == "50 checks failed, 1 check recovered"
    assert (len(lines), lines[-1]) == (22, "and 31 more")
    assert (len(content["failed"]), len(content["recovered"])) == (50, 1)
    assert content["failed"][0] == {
        "check": "check_0",
        "asset": "events",
        "severity": "ERROR",
        "blocking": True,
        "description": "3 rows lack",
        "run": "run-1",
        "job": "rides",
    }


def test_what_a_check_found_is_text_in_a_chat_and_as_it_was_in_the_fields():
    found = "observed <!channel> <http://evil.example|x> ![x](http://evil.example/b.png)"
    content = message([Notice("failed", replace(ROWS, description=found))])
    assert "‹!channel›" in content["text"]
    assert not [part for part in ("<", ">", "](") if part in content["text"]]
    assert content["failed"][0]["description"] == found
