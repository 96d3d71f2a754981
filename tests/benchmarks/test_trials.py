"""The benchmark of trials: it plays the keys that it says, and finds no difference where there is none."""

import re

from benchmarks import trials


def test_a_share_of_the_events_is_played_and_nothing_differs(monkeypatch, capsys):
    monkeypatch.setattr(trials, "_EVENTS_A_FILE", 1_000)
    monkeypatch.setattr(trials, "KEYS", 400)
    monkeypatch.setattr(trials, "SHARES", (0.2, None))
    trials.main(3_000)
    run, share, whole = capsys.readouterr().out.splitlines()
    assert run.startswith("3,000 events: a run over all of them ")
    assert whole.startswith("all keys: 3,000 events, ")
    played = re.match(r"20 % of the keys: (\d+) events", share)
    assert played is not None
    assert 400 < int(played[1]) < 800
