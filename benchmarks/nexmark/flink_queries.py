"""The stateful queries in Flink's SQL, with the columns of Keyfold's answers."""

# ruff: noqa: S608 - of this page alone

import re

_RANKED = """COUNT(*) FILTER (WHERE price < 10000) AS low, COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle,
    COUNT(*) FILTER (WHERE price >= 1000000) AS high"""
_DAY = "DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS `day`"
_BID = "auction, bidder, price, channel, url, dateTime, extra"
_AUCTION = "a.itemName, a.description, a.initialBid, a.reserve, a.dateTime, a.expires, a.seller, a.category, a.extra"
_WINNERS = """SELECT {columns} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, bidTime) AS place
    FROM (SELECT a.id AS auction, {auction}, b.bidder, b.price, b.channel, b.url, b.dateTime AS bidTime, b.extra AS bidExtra
    FROM auction a JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires)) WHERE place <= 1"""


def distinct_counts(by: str, day: str, more: str = "") -> str:
    """Return query 15 or 16, for Flink and DuckDB: numbers of bids, bidders and auctions, also by rank of price."""
    ranks = {"low_": "price < 10000", "middle_": "price >= 10000 AND price < 1000000", "high_": "price >= 1000000"}
    counts = ["COUNT(*) AS bids", "COUNT(DISTINCT bidder) AS bidders", "COUNT(DISTINCT auction) AS auctions"]
    for rank, condition in ranks.items():
        counts.append(f"COUNT(*) FILTER (WHERE {condition}) AS {rank}bids")
        counts += [
            f"COUNT(DISTINCT {column}) FILTER (WHERE {condition}) AS {rank}{column}s"
            for column in ("bidder", "auction")
        ]
    return f"SELECT {by}{more}, {', '.join(counts)} FROM (SELECT *, {day} FROM bid) GROUP BY {by}"


def _window(kind: str, table: str, *lengths: str) -> str:
    return f"TABLE({kind}(TABLE {table}, DESCRIPTOR(rowtime), {', '.join(f'INTERVAL {length}' for length in lengths)}))"


_TEN, _TWO = "'10' SECOND", "'2' SECOND"
_HOPS = f"""SELECT auction, COUNT(*) AS bids, window_start, window_end FROM {_window("HOP", "bid", _TWO, _TEN)}
    GROUP BY auction, window_start, window_end"""

QUERIES: dict[int, str] = {
    3: """SELECT p.name, p.city, p.state, a.id AS auction FROM auction a JOIN person p ON a.seller = p.id
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    4: """SELECT category, AVG(CAST(price AS DOUBLE)) AS average FROM (SELECT a.id, a.category, MAX(b.price) AS price
        FROM auction a JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires GROUP BY a.id, a.category)
        GROUP BY category""",
    5: f"""SELECT counted.window_end, counted.auction, counted.bids FROM ({_HOPS}) counted JOIN (SELECT MAX(bids) AS most, window_start,
        window_end FROM ({_HOPS}) GROUP BY window_start, window_end) best ON counted.window_start = best.window_start
        AND counted.window_end = best.window_end AND counted.bids >= best.most""",
    7: f"""SELECT counted.window_end, auction, bidder, price, dateTime AS bidTime, extra
        FROM (SELECT * FROM {_window("TUMBLE", "bid", _TEN)}) counted
        JOIN (SELECT MAX(price) AS most, window_start, window_end FROM {_window("TUMBLE", "bid", _TEN)}
        GROUP BY window_start, window_end) best ON counted.window_start = best.window_start AND counted.window_end = best.window_end
        AND counted.price = best.most""",
    8: f"""SELECT p.id, p.name, p.window_start FROM (SELECT id, name, window_start, window_end
        FROM {_window("TUMBLE", "person", _TEN)} GROUP BY id, name, window_start, window_end) p
        JOIN (SELECT seller, window_start, window_end FROM {_window("TUMBLE", "auction", _TEN)}
        GROUP BY seller, window_start, window_end) a
        ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end""",
    9: _WINNERS.format(
        auction=_AUCTION,
        columns="""auction, itemName, description, initialBid, reserve, dateTime, expires, seller, category, extra, bidder,
        price, channel, url, bidTime, bidExtra""",
    ),
    11: f"""SELECT bidder, COUNT(*) AS bids, window_start, window_end FROM TABLE(SESSION(TABLE bid PARTITION BY bidder,
        DESCRIPTOR(rowtime), INTERVAL {_TEN})) GROUP BY bidder, window_start, window_end""",
    15: distinct_counts("`day`", _DAY),
    16: distinct_counts("channel, `day`", _DAY, ", MAX(DATE_FORMAT(dateTime, 'HH:mm')) AS `minute`"),
    17: f"""SELECT auction, `day`, MIN(price) AS least, MAX(price) AS greatest, {_RANKED}, SUM(price) AS total,
        COUNT(*) AS bids, AVG(CAST(price AS DOUBLE)) AS average FROM (SELECT *, DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS `day`
        FROM bid) GROUP BY auction, `day`""",
    18: f"""SELECT {_BID} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY rowtime DESC) AS place
        FROM bid) WHERE place <= 1""",
    19: f"""SELECT {_BID}, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS place
        FROM bid) WHERE place <= 10""",
    20: f"""SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.dateTime AS bidTime, b.extra AS bidExtra, {_AUCTION}
        FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10""",
    23: """SELECT p.id, p.name, p.city, p.state, b.auction, b.price, b.channel, a.id AS item, a.itemName, a.category
        FROM bid b JOIN person p ON b.bidder = p.id JOIN auction a ON a.seller = p.id""",
}
UPDATING = frozenset({4, 9, 15, 16, 17, 18, 19})
"""Queries whose answers retract rows. They are written as a log of changes."""

_COLUMNS = {
    "person": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, {time}, extra STRING",
    "auction": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, {time}, "
    "expires TIMESTAMP_LTZ(6), seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, {time}, extra STRING",
}
# Flink's event time has milliseconds. Bids are compared by their own time, which has microseconds.
_TIME = "dateTime TIMESTAMP_LTZ(6), rowtime AS CAST(dateTime AS TIMESTAMP_LTZ(3))"
_WATERMARK = "WATERMARK FOR rowtime AS rowtime - INTERVAL '2' SECOND"


def tables(folder: str) -> list[str]:
    """Return the statements that declare the files of a folder as Flink's sources, one per kind."""
    shape = "'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601'"
    return [
        f"CREATE TEMPORARY TABLE {kind} ({_quoted(columns.format(time=_TIME))}, {_quoted(_WATERMARK)}) "
        f"WITH ('connector' = 'filesystem', 'path' = 'file://{folder}/{kind}', {shape})"
        for kind, columns in _COLUMNS.items()
    ]


def insert(number: int, folder: str) -> str:
    """Return the statement that writes the answer of a query to files, exactly once."""
    shape = "debezium-json" if number in UPDATING else "json"
    options = f"'connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = '{shape}'"
    return f"CREATE TABLE answer WITH ({options}) AS {_quoted(QUERIES[number])}"


def _quoted(sql: str) -> str:
    """Quote the column whose name is a type of Flink."""
    return re.sub(r"\bdateTime\b", "`dateTime`", sql)


def settings(checkpoints: str) -> dict[str, str]:
    """Return the settings for exactly once on two cores with RocksDB, and those that Flink's guide for Nexmark recommends."""
    return {
        "parallelism.default": "2",
        "execution.checkpointing.interval": "5 s",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "execution.checkpointing.dir": f"file://{checkpoints}",
        "state.backend.type": "rocksdb",
        "taskmanager.memory.managed.size": "1 gb",
        "pipeline.object-reuse": "true",
        "table.local-time-zone": "UTC",
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "2 s",
        "table.exec.mini-batch.size": "50000",
        "table.optimizer.distinct-agg.split.enabled": "true",
    }
