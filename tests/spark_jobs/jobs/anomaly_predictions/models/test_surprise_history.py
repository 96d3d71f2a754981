"""What is news among rare events."""

from spark_jobs.jobs.anomaly_predictions.models.surprise_history import LATE, LONGEST_REST, NEVER, REST, Episode

LONG_KNOWN = 10_000
"""An event so late in its metric's life that a rest is as long as it gets."""


def episode():
    return Episode([], [], 0.0, NEVER)


def test_an_event_is_news_if_it_is_rarer_than_all_of_late():
    past = episode()
    assert past.learn(5.0, LONG_KNOWN) == 5.0
    assert past.learn(5.0, LONG_KNOWN + LATE) == 0
    assert past.learn(5.1, LONG_KNOWN + LATE) == 5.1
    later = episode()
    later.learn(5.0, LONG_KNOWN)
    assert later.learn(5.0, LONG_KNOWN + LATE + 1) == 5.0


def test_after_news_it_rests_but_for_what_is_twice_as_rare():
    past = episode()
    past.learn(5.0, LONG_KNOWN)
    assert not past.is_news(6.0, LONG_KNOWN + LONGEST_REST - 1)
    assert past.is_news(10.0, LONG_KNOWN + 1)
    assert past.is_news(6.0, LONG_KNOWN + LONGEST_REST)


def test_a_rest_is_short_while_little_is_known():
    past = episode()
    past.learn(5.0, 310)
    assert not past.is_news(6.0, 319)
    assert past.is_news(6.0, 320)
    assert 320 * REST == 10


def test_what_was_no_news_counts_among_the_events_of_late_all_the_same():
    past = episode()
    past.learn(5.0, LONG_KNOWN)
    assert past.learn(6.0, LONG_KNOWN + 1) == 0
    assert not past.is_news(5.5, LONG_KNOWN + LONGEST_REST + 10)


def test_only_what_may_still_silence_something_is_remembered():
    past = episode()
    for number, rarity in enumerate([9.0, 3.0, 4.0, 2.0, 2.5]):
        past.learn(rarity, number)
    assert past.peaks == [9.0, 4.0, 2.5]
    assert past.peak_numbers == [0, 2, 4]
    past.learn(1.0, LATE + 1)
    assert past.peaks == [4.0, 2.5, 1.0]


def test_what_is_not_rare_is_no_news():
    assert not episode().is_news(0.0, 0)
