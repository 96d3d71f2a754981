"""What is news among rare events."""

from spark_jobs.jobs.anomaly_predictions.models.surprise_history import LATE, LONGEST_REST, NEVER, Episode

LONG_KNOWN = 10_000
"""An event so late in its metric's life that a rest is as long as it gets."""


def episode():
    return Episode([], [], 0.0, NEVER)


def test_after_news_it_rests_but_for_what_is_twice_as_rare():
    past = episode()
    past.learn(5.0, LONG_KNOWN)
    assert not past.is_news(6.0, LONG_KNOWN + LONGEST_REST - 1)
    assert past.is_news(10.0, LONG_KNOWN + 1)
    assert past.is_news(6.0, LONG_KNOWN + LONGEST_REST)


def test_only_what_may_still_silence_something_is_remembered():
    past = episode()
    for number, rarity in enumerate([9.0, 3.0, 4.0, 2.0, 2.5]):
        past.learn(rarity, number)
    assert past.peaks == [9.0, 4.0, 2.5]
    assert past.peak_numbers == [0, 2, 4]
    past.learn(1.0, LATE + 1)
    assert past.peaks == [4.0, 2.5, 1.0]
