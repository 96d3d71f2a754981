"""What is news among rare events."""

from spark_jobs.jobs.anomaly_predictions.models.episodes import HOUR, LONG_AGO, Episode


def episode():
    return Episode([], [], 0.0, LONG_AGO)


def test_an_event_is_news_if_it_is_rarer_than_the_four_days_before_it():
    past = episode()
    assert past.learn(5.0, 0) == 5.0
    assert past.learn(5.0, 95 * HOUR) == 0
    assert past.learn(5.1, 95 * HOUR) == 5.1
    later = episode()
    later.learn(5.0, 0)
    assert later.learn(5.0, 97 * HOUR) == 5.0


def test_after_news_half_a_day_is_quiet_but_for_what_is_twice_as_rare():
    past = episode()
    past.learn(5.0, 0)
    assert not past.is_news(6.0, HOUR)
    assert past.is_news(10.0, HOUR)
    assert past.is_news(6.0, 12 * HOUR)


def test_what_was_no_news_counts_among_the_days_before_all_the_same():
    past = episode()
    past.learn(5.0, 0)
    assert past.learn(6.0, HOUR) == 0
    assert not past.is_news(5.5, 20 * HOUR)


def test_only_what_may_still_silence_something_is_remembered():
    past = episode()
    for hour, rarity in enumerate([9.0, 3.0, 4.0, 2.0, 2.5]):
        past.learn(rarity, hour * HOUR)
    assert past.peaks == [9.0, 4.0, 2.5]
    assert past.peak_times == [0, 2 * HOUR, 4 * HOUR]
    past.learn(1.0, 97 * HOUR)
    assert past.peaks == [4.0, 2.5, 1.0]


def test_what_is_not_rare_is_no_news():
    assert not episode().is_news(0.0, 0)
