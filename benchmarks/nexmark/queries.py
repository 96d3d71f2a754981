"""Every query of Nexmark: its jobs, and the question in DuckDB's SQL over the files, which knows nothing of Keyfold.

The last job of a query has its answer, in the table of its name. In SQL `person`, `auction` and `bid` are the files' rows,
`side_input` is the small table, and `arrived` has the bids with the time at which Keyfold took them in (query 12).
"""

# ruff: noqa: S608 - of this page alone

from dataclasses import dataclass

from benchmarks.nexmark import auctions, stateless, totals, windows
from keyfold import KeyedJob

_ROUNDS = """sum((price < 10000)::INT)::BIGINT low, sum((price >= 10000 AND price < 1000000)::INT)::BIGINT middle,
    sum((price >= 1000000)::INT)::BIGINT high"""
_WINNERS = """SELECT a.id AS auction, a.* EXCLUDE (id), b.bidder, b.price, b.channel, b.url, b.dateTime AS bidTime,
    b.extra AS bidExtra FROM auction a JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
    QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime) = 1"""


def _distinct(by: str, more: str = "") -> str:
    ranks = {"low_": "price < 10000", "middle_": "price >= 10000 AND price < 1000000", "high_": "price >= 1000000"}
    counts = [
        f"{what} FILTER ({where}) AS {rank}{name}"
        for rank, where in {"": "true", **ranks}.items()
        for name, what in {
            "bids": "count(*)",
            "bidders": "count(DISTINCT bidder)",
            "auctions": "count(DISTINCT auction)",
        }.items()
    ]
    return f"SELECT {by}{more}, {', '.join(counts)} FROM (SELECT *, dateTime::DATE AS day FROM bid) GROUP BY {by}"


@dataclass(frozen=True)
class Query:
    """A query of Nexmark.

    Attributes:
        number: of it.
        question: in a few words.
        jobs: what answers it, producers first.
        sql: the same question to DuckDB.
        reads: the kinds of events that it is about.
        stateful: whether what it keeps of one event changes what it says of another.
    """

    number: int
    question: str
    jobs: tuple[KeyedJob, ...]
    sql: str
    reads: tuple[str, ...] = ("bid",)
    stateful: bool = True

    @property
    def answer(self) -> str:
        """The table with the answer."""
        return self.jobs[-1].name


_ALL = (
    Query(0, "every bid", (stateless.Q0,), "FROM bid", stateful=False),
    Query(
        1,
        "prices in another currency",
        (stateless.Q1,),
        "SELECT *, price * 0.908::DOUBLE AS euro FROM bid",
        stateful=False,
    ),
    Query(2, "bids on some auctions", (stateless.Q2,), "FROM bid WHERE auction % 123 = 0", stateful=False),
    Query(
        3,
        "auctions of a category with sellers of three states",
        (auctions.Q3,),
        "SELECT name, city, state, a.id AS auction FROM auction a JOIN person p ON a.seller = p.id "
        "WHERE category = 10 AND state IN ('OR', 'ID', 'CA')",
        ("person", "auction"),
    ),
    Query(
        4,
        "average winning price of each category",
        auctions.Q4,
        f"SELECT category, avg(price) AS average FROM ({_WINNERS}) GROUP BY category",
        ("auction", "bid"),
    ),
    Query(
        5,
        "auctions with most bids in each sliding window",
        windows.Q5,
        """SELECT "end", auction, count(*) AS bids FROM (SELECT auction, unnest(generate_series(
            time_bucket(INTERVAL 2 SECOND, dateTime) + INTERVAL 2 SECOND,
            time_bucket(INTERVAL 2 SECOND, dateTime) + INTERVAL 10 SECOND, INTERVAL 2 SECOND)) AS "end" FROM bid)
            GROUP BY "end", auction QUALIFY bids = max(bids) OVER (PARTITION BY "end")""",
    ),
    Query(
        6,
        "average winning price of each seller's last ten auctions",
        auctions.Q6,
        f"""SELECT seller, avg(price) AS average FROM (SELECT *, row_number() OVER (PARTITION BY seller ORDER BY expires DESC,
            auction DESC) AS place FROM ({_WINNERS})) WHERE place <= 10 GROUP BY seller""",
        ("auction", "bid"),
    ),
    Query(
        7,
        "highest bids of each window",
        windows.Q7,
        """SELECT time_bucket(INTERVAL 10 SECOND, dateTime) + INTERVAL 10 SECOND AS "end", auction, bidder, price, dateTime,
            extra FROM bid QUALIFY price = max(price) OVER (PARTITION BY "end")""",
    ),
    Query(
        8,
        "people who registered and opened an auction in one window",
        (windows.Q8,),
        """SELECT DISTINCT p.id, p.name, time_bucket(INTERVAL 10 SECOND, p.dateTime) AS "start" FROM person p JOIN auction a
            ON p.id = a.seller AND time_bucket(INTERVAL 10 SECOND, p.dateTime) = time_bucket(INTERVAL 10 SECOND, a.dateTime)""",
        ("person", "auction"),
    ),
    Query(9, "each auction with its winning bid", (auctions.Q9,), _WINNERS, ("auction", "bid")),
    Query(
        10,
        "every bid by day and minute",
        (stateless.Q10,),
        "SELECT *, strftime(dateTime, '%Y-%m-%d') AS day, strftime(dateTime, '%H:%M') AS minute FROM bid",
        stateful=False,
    ),
    Query(
        11,
        "bids of each bidder's sessions",
        (windows.Q11,),
        """SELECT bidder, count(*) AS bids, min(dateTime) AS "start", max(dateTime) + INTERVAL 10 SECOND AS "end"
            FROM (SELECT *, sum(is_first) OVER (PARTITION BY bidder ORDER BY dateTime) AS session FROM (SELECT bidder, dateTime,
            coalesce(dateTime - lag(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime) > INTERVAL 10 SECOND, true)::INT
            AS is_first FROM bid)) GROUP BY bidder, session""",
    ),
    Query(
        12,
        "bids of each bidder by windows of arrival",
        (windows.Q12,),
        """SELECT bidder, time_bucket(INTERVAL 10 SECOND, ingested_at) + INTERVAL 10 SECOND AS "end", count(*) AS bids
            FROM arrived GROUP BY ALL""",
    ),
    Query(
        13,
        "each bid with a row of a small table",
        (stateless.Q13,),
        "SELECT b.*, key, value FROM bid b JOIN side_input ON auction % 10000 = key",
        stateful=False,
    ),
    Query(
        14,
        "bids between two prices, with part of day and letters",
        (stateless.Q14,),
        """SELECT *, price * 0.908::DOUBLE AS euro, CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
            WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS part,
            len(extra) - len(replace(extra, 'c', '')) AS letters FROM bid WHERE 0.908 * price > 1000000
            AND 0.908 * price < 50000000""",
        stateful=False,
    ),
    Query(15, "bids, bidders and auctions of each day", (totals.Q15,), _distinct("day")),
    Query(
        16,
        "the same of each channel",
        (totals.Q16,),
        _distinct("channel, day", ", strftime(max(dateTime), '%H:%M') AS minute"),
    ),
    Query(
        17,
        "totals of each auction and day",
        (totals.Q17,),
        f"""SELECT auction, dateTime::DATE AS day, min(price) AS least, max(price) AS greatest, {_ROUNDS},
            sum(price)::BIGINT AS total, count(*) AS bids, avg(price) AS average FROM bid GROUP BY ALL""",
    ),
    Query(
        18,
        "last bid of each bidder on each auction",
        (totals.Q18,),
        "FROM bid QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC) = 1",
    ),
    Query(
        19,
        "ten highest bids of each auction",
        (totals.Q19,),
        """SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, dateTime) AS rank FROM bid
            QUALIFY rank <= 10""",
    ),
    Query(
        20,
        "bids on auctions of a category, with the auction",
        (auctions.Q20,),
        """SELECT b.auction, bidder, price, channel, url, b.dateTime AS bidTime, b.extra AS bidExtra, a.* EXCLUDE (id)
            FROM bid b JOIN auction a ON b.auction = a.id WHERE category = 10""",
        ("auction", "bid"),
    ),
    Query(
        21,
        "bids with a channel's number",
        (stateless.Q21,),
        """SELECT *, coalesce(map {'apple': '0', 'google': '1', 'facebook': '2', 'baidu': '3'}[lower(channel)],
            nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')) AS channel_id FROM bid WHERE channel_id IS NOT NULL""",
        stateful=False,
    ),
    Query(
        22,
        "directories of each url",
        (stateless.Q22,),
        """SELECT *, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3
            FROM bid""",
        stateful=False,
    ),
    Query(
        23,
        "bids with their bidder and what the bidder sells",
        (auctions.Q23,),
        """SELECT p.id, name, city, state, b.auction, price, channel, a.id AS item, itemName, category FROM bid b
            JOIN person p ON b.bidder = p.id JOIN auction a ON a.seller = p.id""",
        ("person", "auction", "bid"),
    ),
)
QUERIES = {query.number: query for query in _ALL}
