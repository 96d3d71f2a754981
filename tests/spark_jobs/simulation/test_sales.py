"""Sales have the shop's two layouts, popular items, returns and quoted descriptions."""

import gzip
import re
from collections import Counter, defaultdict

from spark_jobs.simulation.sales import DEVICES, RETAIL
from spark_jobs.streams import SALES
from tests.keyfold.ingestion.parsing.reading import file_rows
from tests.spark_jobs.simulation.reading import HOUR


def test_files_are_messages_and_ledger_exports_in_turn(calls):
    call, _ = calls("sales")
    whole = [path for path in call.paths if "cut-short" not in path.name]
    assert {path.name.split(".")[1] for path in whole[::2]} == {"ndjson"}
    assert {path.name.split(".")[1] for path in whole[1::2]} == {"csv"}
    in_csv = sum("InvoiceNo" in event for event in call.found.events)
    assert 0.4 < in_csv / len(call.found.events) < 0.6


def test_items_sell_by_zipf_s_law_under_the_same_name_and_price_in_both_layouts(calls):
    first, further = (call.found.events for call in calls("sales"))
    sold = Counter(event["key"] for event in first).most_common()
    assert len(sold) == calls("sales")[0].summary.items == 60
    assert sold[0][1] > 8 * sold[15][1] > 16 * sold[59][1]
    by_layout = {layout: {e["key"] for e in first if ("InvoiceNo" in e) == layout} for layout in (True, False)}
    assert len(by_layout[True] & by_layout[False]) > 50
    prices = defaultdict(set)
    for event in (*first, *further):
        if event["price"] is not None:
            prices[event["key"]].add(event["price"])
    assert {len(each) for each in prices.values()} == {1}


def test_returns_have_negative_quantities_and_a_cancelled_invoice(calls):
    call, _ = calls("sales")
    events = call.found.events
    assert call.summary.returns == sum(event["quantity"] < 0 for event in events)
    assert 0.01 < call.summary.returns / len(events) < 0.1
    for event in events:
        assert event["quantity"] != 0
        if "InvoiceNo" in event:
            assert event["InvoiceNo"].startswith("C") == (event["quantity"] < 0)


def test_an_invoice_is_of_one_moment_and_one_customer_and_its_number_never_comes_again(calls):
    invoices = [defaultdict(set), defaultdict(set)]
    for lines, call in zip(invoices, calls("sales"), strict=True):
        for event in call.found.events:
            if "InvoiceNo" in event:
                lines[event["InvoiceNo"]].add((event["time"], event["CustomerID"], event["Country"]))
        assert {len(each) for each in lines.values()} == {1}
    assert not invoices[0].keys() & invoices[1].keys()
    guests = [customer == "" for each in invoices[0].values() for _, customer, _ in each]
    assert 0.15 < sum(guests) / len(guests) < 0.35


def test_models_are_those_of_the_item_and_commas_in_descriptions_are_quoted(calls):
    call, _ = calls("sales")
    quoted, several = 0, 0
    for event in call.found.events:
        assert set(event["models"]) <= set(DEVICES.get(event["key"], RETAIL))
        several += len(event["models"]) > 1
        quoted += '"' in event["line"] and "InvoiceNo" in event
        assert ("InvoiceNo" not in event) or ("," in event["Description"]) == ('"' in event["line"])
    assert min(quoted, several) > 100


def test_ingest_reads_both_layouts_into_the_same_columns(calls):
    call, _ = calls("sales")
    arrived = call.summary.end + HOUR
    ours = Counter(
        (
            event["key"],
            event["quantity"],
            event["time"] or arrived,
            event["price"],
            tuple(event["models"]),
            event.get("InvoiceNo"),
        )
        for event in call.found.events
    )
    theirs = Counter()
    for path in call.paths:
        for row in file_rows(SALES, path, arrived, call.landing):
            if row["reason"] is None:
                theirs[
                    row["item"], row["quantity"], row["time"], row["price"], tuple(row["models"]), row["invoice"]
                ] += 1
    assert ours == theirs


def test_some_messages_of_tills_without_a_clock_say_no_time_and_nothing_else_that_a_clock_would_tell(calls):
    for call in calls("sales"):
        messages = [event for event in call.found.events if "InvoiceNo" not in event]
        untimed = [event["line"] for event in messages if event["time"] is None]
        assert 0.02 < len(untimed) / len(messages) < 0.1
        assert len(untimed) == call.summary.untimed
        assert all(re.fullmatch(r'\{"item":"[^"]+","quantity":-?\d+,"model":\["[^]]*"\]\}', line) for line in untimed)


def test_the_ledger_export_has_the_retail_header(calls):
    path = next(path for path in calls("sales")[0].paths if path.name.endswith("0001.csv.gz"))
    header = gzip.decompress(path.read_bytes()).decode().splitlines()[0]
    assert header == "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country"
