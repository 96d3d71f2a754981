"""The stateful queries of Nexmark: their jobs, and the same questions in DuckDB's SQL over the files.

The last job of a query writes its answer, to the table of its name. In SQL, `person`, `auction` and `bid` are the rows of the
files, and `arrived` has the bids with the time of their ingest (query 12).
"""

# ruff: noqa: S608 - of this page alone

from dataclasses import dataclass

from benchmarks.nexmark import auctions, totals, windows
from benchmarks.nexmark.flink_queries import distinct_counts
from keyfold import KeyedJob

_DAY = "dateTime::DATE AS day"
_ROUNDS = """sum((price < 10000)::INT)::BIGINT low, sum((price >= 10000 AND price < 1000000)::INT)::BIGINT middle,
    sum((price >= 1000000)::INT)::BIGINT high"""
_WINNERS = """SELECT a.id AS auction, a.* EXCLUDE (id), b.bidder, b.price, b.channel, b.url, b.dateTime AS bidTime,
    b.extra AS bidExtra FROM auction a JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
    QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime) = 1"""


@dataclass(frozen=True)
class Query:
    """A query of Nexmark.

    Attributes:
        number: its number in Nexmark.
        sql: the query in DuckDB's SQL.
        jobs: its jobs, producers first.
    """

    number: int
    sql: str
    jobs: tuple[KeyedJob, ...]

    @property
    def answer(self) -> str:
        """Name of the table with the answer."""
        return self.jobs[-1].name

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the streams that it reads."""
        return tuple(dict.fromkeys(stream.name for job in self.jobs for stream in job.streams))


_SQL = {
    3: """SELECT name, city, state, a.id AS auction FROM auction a JOIN person p ON a.seller = p.id
        WHERE category = 10 AND state IN ('OR', 'ID', 'CA')""",
    4: f"SELECT category, avg(price) AS average FROM ({_WINNERS}) GROUP BY category",
    5: """SELECT window_end, auction, count(*) AS bids FROM (SELECT auction, unnest(generate_series(
        time_bucket(INTERVAL 2 SECOND, dateTime) + INTERVAL 2 SECOND,
        time_bucket(INTERVAL 2 SECOND, dateTime) + INTERVAL 10 SECOND, INTERVAL 2 SECOND)) AS window_end FROM bid)
        GROUP BY window_end, auction QUALIFY bids = max(bids) OVER (PARTITION BY window_end)""",
    6: f"""SELECT seller, avg(price) AS average FROM (SELECT *, row_number() OVER (PARTITION BY seller ORDER BY expires DESC,
        auction DESC) AS place FROM ({_WINNERS})) WHERE place <= 10 GROUP BY seller""",
    7: """SELECT time_bucket(INTERVAL 10 SECOND, dateTime) + INTERVAL 10 SECOND AS window_end, auction, bidder, price,
        dateTime AS bidTime, extra FROM bid QUALIFY price = max(price) OVER (PARTITION BY window_end)""",
    8: """SELECT DISTINCT p.id, p.name, p.dateTime, time_bucket(INTERVAL 10 SECOND, p.dateTime) AS "start" FROM person p JOIN auction a
        ON p.id = a.seller AND time_bucket(INTERVAL 10 SECOND, p.dateTime) = time_bucket(INTERVAL 10 SECOND, a.dateTime)""",
    9: _WINNERS,
    11: """SELECT bidder, count(*) AS bids, min(dateTime) AS window_start, max(dateTime) + INTERVAL 10 SECOND AS window_end
        FROM (SELECT *, sum(is_first) OVER (PARTITION BY bidder ORDER BY dateTime) AS session FROM (SELECT bidder, dateTime,
        coalesce(dateTime - lag(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime) > INTERVAL 10 SECOND, true)::INT
        AS is_first FROM bid)) GROUP BY bidder, session""",
    12: """SELECT bidder, time_bucket(INTERVAL 10 SECOND, ingested_at) + INTERVAL 10 SECOND AS window_end, count(*) AS bids
        FROM arrived GROUP BY ALL""",
    15: distinct_counts("day", _DAY),
    16: distinct_counts("channel, day", _DAY, ", strftime(max(dateTime), '%H:%M') AS minute"),
    17: f"""SELECT auction, dateTime::DATE AS day, min(price) AS least, max(price) AS greatest, {_ROUNDS},
        sum(price)::BIGINT AS total, count(*) AS bids, avg(price) AS average FROM bid GROUP BY ALL""",
    18: "FROM bid QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) = 1",
    19: """SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, dateTime) AS rank FROM bid
        QUALIFY rank <= 10""",
    20: """SELECT b.auction, bidder, price, channel, url, b.dateTime AS bidTime, b.extra AS bidExtra, a.* EXCLUDE (id)
        FROM bid b JOIN auction a ON b.auction = a.id WHERE category = 10""",
    23: """SELECT p.id, name, city, state, b.auction, price, channel, a.id AS item, itemName, category FROM bid b
        JOIN person p ON b.bidder = p.id JOIN auction a ON a.seller = p.id""",
}
_JOBS = {**auctions.JOBS, **totals.JOBS, **windows.JOBS}
QUERIES = {number: Query(number, sql, _JOBS[number]) for number, sql in _SQL.items()}
