"""The API against a real node: every number that it tells, and every change that it makes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from chronik.client import Producer, connect
from chronik.client.admin import topics
from chronik.testing import Cluster
from tests.console.served import Served, serving

BEGAN_MS = 1_790_000_000_000
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console")]
needs_sql = pytest.mark.skipif(
    any(find_spec(each) is None for each in ("duckdb", "pyarrow", "deltalake")),
    reason="the extra `sql` is not installed",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(settings={"chronik.admin.listener": "127.0.0.1:0"}, in_process=False) as made:
        yield made


@pytest.fixture(scope="module")
def console(cluster: Cluster) -> Iterator[Served]:
    with serving(cluster.bootstrap, "--allow-changes") as made:
        yield made


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    """With 40 records in three partitions, one a millisecond; the value of record i is {"i": i}. Not to be changed."""
    name = "orders"
    asyncio.run(fill(cluster.bootstrap, name))
    return name


@pytest.fixture
def own_topic(cluster: Cluster, unique: Callable[[str], str]) -> str:
    """The same, to be changed."""
    name = unique("own")
    asyncio.run(fill(cluster.bootstrap, name))
    return name


async def fill(bootstrap: str, name: str) -> None:
    async with connect(bootstrap) as client:
        await topics.create(client, [topics.NewTopic(name, 3)])
        async with Producer(client) as producer:
            for number in range(40):
                await producer.send(
                    name,
                    f'{{"i":{number}}}'.encode(),
                    key=f"k{number % 4}".encode(),
                    partition=number % 3,
                    timestamp=BEGAN_MS + number,
                )


def numbers(page: Any) -> list[int]:
    return [int(record["value"]["text"].removeprefix('{"i":').removesuffix("}")) for record in page["records"]]


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_pages_show_every_record_once_in_both_directions(console: Served, topic: str, start: str) -> None:
    """By nothing but the cursors that pages have."""
    at, direction = f"start={start}", "forward" if start == "earliest" else "backward"
    seen: list[int] = []
    while True:
        page = console.get(f"/topics/{topic}/records?limit=7&{at}&direction={direction}")
        seen = seen + numbers(page) if start == "earliest" else numbers(page) + seen
        if not page["has_next" if start == "earliest" else "has_previous"]:
            break
        at = f"cursor={page['next' if start == 'earliest' else 'previous']}"
    assert seen == list(range(40))


def test_a_cursor_is_the_same_place_from_both_sides(console: Served, topic: str) -> None:
    page = console.get(f"/topics/{topic}/records?limit=10&start=earliest")
    back = console.get(f"/topics/{topic}/records?limit=10&cursor={page['next']}&direction=backward")
    assert numbers(back) == numbers(page)


def test_a_page_can_begin_at_a_time_or_an_offset(console: Served, topic: str) -> None:
    middle = console.get(f"/topics/{topic}/records?start=earliest")["records"][20]
    page = console.get(f"/topics/{topic}/records?start=time:{middle['timestamp_ms']}")
    assert numbers(page) == list(range(20, 40))
    assert numbers(console.get(f"/topics/{topic}/records?start=offset:13&partition=0")) == [39]
    assert console.get(f"/topics/{topic}/records?start=time:9999999999999")["records"] == []


@needs_sql
def test_a_condition_in_sql_chooses_records(console: Served, topic: str) -> None:
    where = quote("(value->>'$.i')::INT > 36 AND key <> 'k1'")
    assert numbers(console.get(f"/topics/{topic}/records?start=earliest&where={where}")) == [38, 39]
    assert console.error("GET", f"/topics/{topic}/records?where=nonsense%20%20here") == "BAD_QUERY"
    escape = quote("key IN (SELECT content FROM read_text('/etc/hostname'))")
    assert console.error("GET", f"/topics/{topic}/records?where={escape}") == "BAD_QUERY"


def test_one_record_with_its_bytes_and_the_one_of_its_key_before(console: Served, topic: str) -> None:
    path = f"/topics/{topic}/records/0/13"
    record = console.get(path)["record"]
    assert (record["key"]["text"], record["value"]["text"]) == ("k3", '{"i":39}')
    assert console.request("GET", f"{path}/raw") == (200, b'{"i":39}')
    assert console.get(f"{path}/previous")["record"]["value"]["text"] == '{"i":27}'
    assert console.get(f"/topics/{topic}/records/0/0/previous")["record"] is None
    assert console.error("GET", f"/topics/{topic}/records/0/14") == "RECORD_NOT_FOUND"
    assert console.error("GET", f"/topics/{topic}/records/9/0") == "PARTITION_NOT_FOUND"


def test_hostile_values_come_back_as_they_are(console: Served, unique: Callable[[str], str]) -> None:
    name = unique("hostile")
    console.post("/topics", {"name": name, "partitions": 1, "configs": {"max.message.bytes": "12000000"}})
    for value in ({"text": "<script>alert(1)</script>"}, {"text": "\x1b[2J\u202e"}, {"base64": "//79"}, None):
        console.post(f"/topics/{name}/records", {"value": value})
    shown = [each["value"] for each in console.get(f"/topics/{name}/records?start=earliest")["records"]]
    assert [each and (each["kind"], each["text"]) for each in shown] == [
        ("text", "<script>alert(1)</script>"),
        ("text", "\x1b[2J\u202e"),
        ("hex", "fffefd"),
        None,
    ]


def test_a_value_of_ten_megabytes_costs_a_page_as_much_as_is_shown(
    console: Served, unique: Callable[[str], str]
) -> None:
    name = unique("large")
    console.post("/topics", {"name": name, "partitions": 1, "configs": {"max.message.bytes": "12000000"}})
    console.post(f"/topics/{name}/records", {"value": {"text": "x" * 10_000_000}})
    status, page = console.request("GET", f"/topics/{name}/records?value_bytes=100")
    assert status == 200
    value = page["records"][0]["value"]
    assert (len(value["text"]), value["size_bytes"], value["is_truncated"]) == (100, 10_000_000, True)
    assert len(console.request("GET", f"/topics/{name}/records/0/0/raw")[1]) == 10_000_000


def test_counts_over_time_come_from_the_index(console: Served, topic: str) -> None:
    found = console.get(f"/topics/{topic}/histogram?buckets=10")
    assert sum(found["counts"]) == 40
    assert found["is_exact"]
    assert (found["from_ms"], found["step_ms"]) == (BEGAN_MS, 1_000)


def test_a_topic_with_its_partitions_settings_and_groups(console: Served, topic: str) -> None:
    shown = console.get(f"/topics/{topic}")
    assert shown["records"] == 40
    assert [each["end_offset"] for each in shown["partitions"]] == [14, 13, 13]
    assert all(each["leader_id"] == 1 and each["sizes_bytes"]["1"] > 0 for each in shown["partitions"])
    configs = {each["name"]: each for each in console.get(f"/topics/{topic}/configs")["configs"]}
    assert configs["retention.ms"]["type"] == "long"
    assert configs["retention.ms"]["documentation"]
    console.post("/groups/reader/reset", {"to": "5", "topics": [topic]})
    assert [each["group_id"] for each in console.get(f"/topics/{topic}/groups")["groups"]] == ["reader"]
    assert console.error("GET", f"/topics/{topic}x") == "TOPIC_NOT_FOUND"


def test_a_group_is_moved_as_planned(console: Served, topic: str, unique: Callable[[str], str]) -> None:
    name = unique("group/with slash")
    path = f"/groups/{quote(name, safe='')}"
    planned = console.post(f"{path}/reset", {"to": "earliest", "topics": [topic], "dry_run": True})
    assert (planned["done"], [each["after"] for each in planned["plan"]]) == (False, [0, 0, 0])
    assert console.error("GET", path) == "GROUP_NOT_FOUND"
    console.post(f"{path}/reset", {"to": "earliest", "topics": [topic]})
    assert console.get(path)["lag"] == 40
    done = console.post(f"{path}/reset", {"to": "+3"})
    assert [each["lag_after"] for each in done["plan"]] == [11, 10, 10]
    assert "--shift +3" in done["command"]
    assert console.get(path)["lag"] == 31
    why = console.get(f"{path}/why?seconds=1")
    assert (why["verdict"], [each["name"] for each in why["causes"]]) == ("behind", ["no-members"])
    console.post(f"{path}/delete")
    assert console.error("GET", path) == "GROUP_NOT_FOUND"


def test_changes_say_what_they_change_and_how_to_do_it_without_a_console(console: Served, own_topic: str) -> None:
    topic = own_topic
    planned = console.post(f"/topics/{topic}/configs", {"set": {"retention.ms": "1000000"}, "dry_run": True})
    assert planned["plan"] == [{"name": "retention.ms", "before": "-1", "after": "1000000"}]
    assert planned["command"].startswith(f"chronik topic alter {topic} --config retention.ms=1000000")
    console.post(f"/topics/{topic}/configs", {"set": {"retention.ms": "1000000"}})
    assert console.get(f"/topics/{topic}/configs")["configs"][0]["source"] == "topic"
    assert console.error("POST", f"/topics/{topic}/configs", {"set": {"no.such.key": "1"}}) == "REFUSED"
    console.post(f"/topics/{topic}/partitions", {"count": 5})
    assert len(console.get(f"/topics/{topic}")["partitions"]) == 5
    sent = console.post(f"/topics/{topic}/resend", {"records": [{"partition": 0, "offset": 0}]})["result"]
    again = sent["records"][0]
    record = console.get(f"/topics/{topic}/records/{again['partition']}/{again['offset']}")["record"]
    assert (record["key"]["text"], record["value"]["text"]) == ("k0", '{"i":0}')
    console.post(f"/topics/{topic}/delete")
    assert console.error("GET", f"/topics/{topic}") == "TOPIC_NOT_FOUND"
    done = [(each["action"], each["outcome"]) for each in console.get("/activity?limit=6")["activity"]]
    assert done[:1] == [("topic delete", "done")]
    assert ("topic alter", "planned") in done


def test_the_tail_shows_what_arrives(console: Served, own_topic: str) -> None:
    topic = own_topic
    with console.opened("GET", f"/topics/{topic}/tail") as response:
        while b"cursor" not in (line := response.readline()):
            assert response.status == 200
        assert b'"records":[]' in line
        console.post(f"/topics/{topic}/records", {"value": {"text": "new"}})
        while b'"text":"new"' not in response.readline():
            pass


def test_the_stream_ticks_with_overview_and_metrics(console: Served) -> None:
    names = [name for name, _ in console.events("/stream", 4)]
    assert names.count("overview") >= 2
    assert "metrics" in names


def test_the_overview_of_a_healthy_node(console: Served, topic: str) -> None:
    shown = console.until("/overview", lambda document: document["rates"]["messages_in_per_s"] is not None)
    assert shown["cluster"]["has_quorum"]
    assert (shown["cluster"]["nodes"], shown["cluster"]["nodes_answering"], shown["missing"]) == (1, 1, [])
    series = console.get("/metrics?series=messages_in_per_s&series=connections@1&series=none")["series"]
    assert series["messages_in_per_s"][-1] is not None
    assert series["connections@1"][-1] is not None
    assert set(series["none"]) == {None}


def test_search_finds_topics_groups_and_nodes(console: Served, topic: str) -> None:
    found = console.until(f"/search?q={topic.upper()}", lambda document: document["found"])
    assert found["found"][0] == {"kind": "topic", "name": topic, "link": f"/topics/{topic}"}


def test_the_doctor_links_its_findings(console: Served) -> None:
    found = console.get("/doctor")
    assert found["checks"] > 10
    assert all(each["link"].startswith("/") for each in found["findings"])


@needs_sql
def test_sql_over_topics_without_files(console: Served, topic: str) -> None:
    query = f"SELECT count(*) AS n, min(_offset) FROM \"{topic}\" WHERE value->>'$.i' < '2'"
    answer = console.post("/sql", {"id": "q", "query": query})
    assert answer["columns"][0] == {"name": "n", "type": "BIGINT"}
    assert answer["rows"][0][0] == len([number for number in range(40) if str(number) < "2"])
    console.until("/sql/catalog", lambda document: topic in [each["name"] for each in document["topics"]])
    hostile = {"id": "q", "query": "SELECT * FROM read_text('/etc/hostname')"}
    assert console.error("POST", "/sql", hostile) == "BAD_QUERY"  # test_locked_sql has more


@needs_sql
def test_a_query_can_be_cancelled(console: Served) -> None:
    ended: list[str] = []
    endless = "SELECT count(*) FROM range(1000000000000) a, range(1000) b"
    asking = threading.Thread(target=lambda: ended.append(console.error("POST", "/sql", {"id": "x", "query": endless})))
    asking.start()
    while not console.post("/sql/x/cancel")["done"]:
        pass
    asking.join()
    assert ended == ["CANCELLED"]


def test_the_printed_address_signs_a_browser_in_once(console: Served) -> None:
    def open_it() -> str | None:
        at = urlsplit(console.url)
        connection = HTTPConnection(console.host, console.port)
        connection.request("GET", f"{at.path}?{at.query}")
        response = connection.getresponse()
        response.read()
        connection.close()
        assert response.status == 303
        return response.getheader("Set-Cookie")

    assert open_it() is not None
    assert open_it() is None
