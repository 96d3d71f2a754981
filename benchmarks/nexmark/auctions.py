"""Queries 3, 4, 6, 9, 20 and 23: joins of people, auctions and bids."""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl
import pyarrow as pa

from benchmarks.nexmark.streams import AUCTION, BID, PERSON, STREAMS, TIME, UNCOUNTED, reads, required, times, whole
from keyfold import STEP_DECIDES, Append, Clock, Input, KeyedJob, State, Step, Upsert
from keyfold.operators import sum, totals
from keyfold.stream.refined import Refined

_AUCTION = [field for field in AUCTION if field.name != "id"]
# Auctions have columns of the same names.
_OTHER_NAMES = {TIME: "bidTime", "extra": "bidExtra"}
_BID = [field.with_name(_OTHER_NAMES.get(field.name, field.name)) for field in BID if field.name != "auction"]
_AUCTION_ID = whole("auction")
_AVERAGE = required("average", pa.float64())
_WHO, _IN_TEN = ("name", "city", "state"), pl.col("category") == 10


def _beside(source: Refined, columns: list[pa.Field], time: str) -> Input:
    """Return an input whose columns, with the time, are renamed since another input has the same names."""
    source = source.derive(**{time: pl.col(TIME)})
    return replace(reads(source.source.name), source=source, columns=pa.schema(columns), at=time)


def _bids(columns: list[pa.Field]) -> Input:
    """Return the input of bids, for a join with auctions."""
    derived = {"bidExtra": pl.col("extra")} if _BID[-1] in columns else {}
    return _beside(STREAMS["bid"].derive(**derived), [*_AUCTION_ID, *columns], "bidTime")


def _nullable(fields: list[pa.Field]) -> list[pa.Field]:
    return [field.with_nullable(True) for field in fields]


def _winners(name: str, opened: list[pa.Field], placed: list[pa.Field]) -> KeyedJob:
    """Make a job that writes each auction after it has expired, with its highest bid (of equal bids, the earliest).

    Args:
        name: name of the job.
        opened: columns of the auction, with `dateTime` and `expires`.
        placed: columns of the bid, with `price` and `bidTime`.
    """
    of_auction, of_bid = ["auction", *(field.name for field in opened)], ["auction", *(field.name for field in placed)]

    def step(state: pl.DataFrame, events: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
        is_auction = state["expires"].is_not_null()
        auctions = pl.concat([state.filter(is_auction).select(of_auction), events["auction"].select(of_auction)])
        bids = pl.concat([state.filter(~is_auction).select(of_bid), events["bid"].select(of_bid)])
        bids = bids.join(auctions.select("auction", TIME, "expires"), on="auction", how="left")
        best = bids.filter(pl.col("bidTime").is_between(TIME, "expires"))
        best = best.filter(pl.col("price") == pl.col("price").max().over("auction"))
        best = best.filter(pl.col("bidTime") == pl.col("bidTime").min().over("auction"))
        best = best.sort(of_bid).unique("auction", keep="first", maintain_order=True)
        is_over = pl.col("expires") <= clock.watermark
        # Keep bids ahead of the watermark, whose auction may still arrive. For others it has expired, or does not exist.
        early = bids.filter(pl.col("expires").is_null() & (pl.col("bidTime") > clock.watermark))
        state_rows = [
            auctions.filter(~is_over).with_columns(deadline="expires"),
            best.filter(~is_over).select(*of_bid, deadline="expires"),
            early.select(*of_bid, deadline="bidTime"),
        ]
        output = auctions.filter(is_over).join(best.select(of_bid), on="auction")
        return Step(state=pl.concat(state_rows, how="diagonal").select(state.columns), output=output)

    inputs = {"auction": reads("auction", *of_auction[1:], auction=pl.col("id")), "bid": _bids(placed)}
    fields = pa.schema([*_AUCTION_ID, *_nullable([*opened, *placed]), *times("deadline")])
    output = pa.schema([*_AUCTION_ID, *opened, *placed])
    state, table = State(fields, events=UNCOUNTED), Append(output, events=UNCOUNTED)
    return KeyedJob(name, inputs, "auction", state, step, table)


_PRICED = [field for field in _BID if field.name in ("price", "bidTime")]
_Q4_WINNERS = _winners("q4_winners", [*whole("category"), *times(TIME, "expires")], _PRICED)
_Q4 = totals(
    "q4",
    Input(_Q4_WINNERS.table(), "expires"),
    {"total": sum("price")},
    key="category",
    then={"average": pl.col("total") / pl.col("n_events")},
    output=pa.schema([*whole("category"), _AVERAGE]),
)

_Q6_WINNERS = _winners("q6_winners", [*whole("seller"), *times(TIME, "expires")], _PRICED)
_SOLD = pa.schema([*whole("seller", "auction", "price"), *times("expires")])


def _last_ten(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    sold = pl.concat([state, events]).sort("expires", "auction")
    last = sold.group_by("seller", maintain_order=True).tail(10)
    return Step(state=last, output=last.group_by("seller").agg(average=pl.col("price").mean()))


_Q6 = KeyedJob(
    "q6",
    Input(_Q6_WINNERS.table(), "expires", columns=_SOLD, final_at=STEP_DECIDES, conserved=False),
    "seller",
    State(_SOLD, events=UNCOUNTED),
    _last_ten,
    Upsert(pa.schema([*whole("seller"), _AVERAGE]), "seller", events=UNCOUNTED),
)


def _with_the_row(name: str, key: str, events: Input, rows: Input, output: list[pa.Field], fits: pl.Expr) -> KeyedJob:
    """Make a job that joins each event with the one row of its key, whichever comes first, without a limit of time.

    Events are dropped if the row of their key does not fulfil `fits`.
    """
    of_event, of_row = ([field for field in side.schema if field.name != key] for side in (events, rows))

    def step(state: pl.DataFrame, came: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
        # Of a row that does not fit, keep only the fact that it came.
        new = came["rows"].with_columns(is_row=pl.lit(value=True), fits=fits)
        new = new.with_columns(pl.when("fits").then(pl.col(field.name)) for field in of_row)
        rows_of_keys = pl.concat([state.filter("is_row"), new], how="diagonal")
        waiting = [state.filter(~pl.col("is_row")), came["events"].with_columns(is_row=pl.lit(value=False))]
        waiting, names = pl.concat(waiting, how="diagonal"), [field.name for field in of_event]
        matches = waiting.select(key, *names).join(rows_of_keys.filter("fits").drop(names), on=key)
        state = pl.concat([rows_of_keys, waiting.join(rows_of_keys, on=key, how="anti")], how="diagonal").select(
            state.columns
        )
        return Step(state=state, output=matches.select(field.name for field in output))

    state_fields = [
        *whole(key),
        *_nullable([*of_event, *of_row]),
        required("is_row", pa.bool_()),
        pa.field("fits", pa.bool_()),
    ]
    inputs = {"events": events, "rows": rows}
    state, table = State(pa.schema(state_fields), events=UNCOUNTED), Append(pa.schema(output), events=UNCOUNTED)
    return KeyedJob(name, inputs, key, state, step, table)


_Q3 = _with_the_row(
    "q3",
    "seller",
    _beside(
        STREAMS["auction"].where(_IN_TEN).derive(auction=pl.col("id")),
        [*whole("seller", "auction"), *times("opened")],
        "opened",
    ),
    reads("person", *_WHO, TIME, seller=pl.col("id")),
    [*map(PERSON.field, _WHO), *_AUCTION_ID],
    pl.col("state").is_in(["OR", "ID", "CA"]),
)
_Q20 = _with_the_row(
    "q20",
    "auction",
    _bids(_BID),
    reads("auction", *(field.name for field in _AUCTION), auction=pl.col("id")),
    [*_AUCTION_ID, *_BID, *_AUCTION],
    _IN_TEN,
)

_SELLING = {
    "person": _WHO,
    "bid": ("auction", "price", "channel"),
    "auction": ("item", "itemName", "category"),
}
_FIELDS = [
    *(PERSON.field(name) for name in _SELLING["person"]),
    *(BID.field(name) for name in _SELLING["bid"]),
    *[*whole("item"), *(AUCTION.field(name) for name in _SELLING["auction"][1:])],
]


def _bidding_sellers(state: pl.DataFrame, events: Mapping[str, pl.DataFrame], clock: Clock) -> Step:
    came = pl.concat([events[kind].with_columns(kind=pl.lit(kind)) for kind in _SELLING], how="diagonal")
    came = came.select(state.columns)
    rows = pl.concat([state.with_columns(is_new=pl.lit(value=False)), came.with_columns(is_new=pl.lit(value=True))])
    person, bid, auction = (
        rows.filter(pl.col("kind") == kind).select("id", "is_new", *_SELLING[kind]) for kind in _SELLING
    )
    # If the person is new, no bid of the person was written before: all of them are new.
    bid = bid.join(person.rename({"is_new": "joined"}), on="id").with_columns(pl.col("is_new") | pl.col("joined"))
    of_new = bid.filter("is_new").join(auction.drop("is_new"), on="id")
    of_old = bid.filter(~pl.col("is_new")).join(auction.filter("is_new").drop("is_new"), on="id")
    return Step(add=came, output=pl.concat([of_new, of_old]).select("id", *(field.name for field in _FIELDS)))


_Q23 = KeyedJob(
    "q23",
    {
        "person": reads("person", "id", TIME, *_SELLING["person"]),
        "bid": reads("bid", TIME, *_SELLING["bid"], id=pl.col("bidder")),
        "auction": reads("auction", TIME, "itemName", "category", id=pl.col("seller"), item=pl.col("id")),
    },
    "id",
    State(pa.schema([*whole("id"), required("kind", pa.string()), *_nullable(_FIELDS)]), events=UNCOUNTED),
    _bidding_sellers,
    Append(pa.schema([*whole("id"), *_FIELDS]), events=UNCOUNTED),
)
JOBS = {
    3: (_Q3,),
    4: (_Q4_WINNERS, _Q4),
    6: (_Q6_WINNERS, _Q6),
    9: (_winners("q9", _AUCTION, _BID),),
    20: (_Q20,),
    23: (_Q23,),
}
