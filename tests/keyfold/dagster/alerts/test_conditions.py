"""Conditions are raised once and cleared once; their messages are plain text with a remedy and without addresses."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from keyfold.dagster.alerts.condition import Change, Condition, all_found, follow
from keyfold.dagster.alerts.message import content, entry, message, plain


def condition(name: str = "job rides", severity: Any = "error", what: str = "it failed") -> Condition:
    return Condition(name, severity, what, "start it again", {"run": "1a2b"})


SEVERITIES = st.sampled_from([None, "warning", "error"])


@given(st.lists(st.dictionaries(st.sampled_from("abc"), SEVERITIES, min_size=3), max_size=20))
def test_a_condition_is_reported_when_it_comes_when_it_gets_worse_and_when_it_is_over(looks):
    raised, reported, was = {}, [], dict.fromkeys("abc")
    for look in looks:
        found = [condition(name, severity) for name, severity in look.items() if severity]
        raised, changes = follow(raised, all_found(raised, found), 0)
        reported.append({(one.condition.name, one.state) for one in changes})
        expected = set()
        for name, severity in look.items():
            if severity and (was[name] is None or (was[name], severity) == ("warning", "error")):
                expected.add((name, "raised"))
            if not severity and was[name]:
                expected.add((name, "cleared"))
        assert reported[-1] == expected
        assert {name for name, severity in look.items() if severity} == set(raised)
        was = look


def test_a_message_says_what_and_the_remedy_and_keeps_its_title_until_it_is_over():
    raised, cleared = (entry(Change(state, condition(), 0)) for state in ("raised", "cleared"))
    told = message([raised])
    assert (told.title, told.kind) == ("Keyfold: job rides", "failure")
    assert told.body == "error: job rides: it failed. Remedy: start it again"
    assert (message([cleared]).title, message([cleared]).kind) == (told.title, "success")
    both = content([raised, cleared], lost=2)
    assert both["text"].startswith("Keyfold: 1 raised, 1 over\nerror: job rides")
    assert "2 earlier alerts could not be delivered" in both["text"]
    assert [one["run"] for one in (*both["raised"], *both["cleared"])] == ["1a2b", "1a2b"]


def test_of_many_alerts_the_text_names_twenty_and_the_lists_all():
    many = [entry(Change("raised", condition(f"job {number}"), 0)) for number in range(50)]
    assert content(many)["text"].endswith("\nand 30 more")
    assert len(content(many)["raised"]) == 50


def test_what_somebody_put_into_a_row_is_no_markup_no_command_and_no_secret_address():
    hostile = "<!everyone> [a](http://u:SECRET@host/x?token=SECRET) \x1b[31m\nline two"
    assert plain(hostile) == "‹!everyone› [a] (http://… [31m line two"
    assert len(plain("x" * 10_000)) == 400
