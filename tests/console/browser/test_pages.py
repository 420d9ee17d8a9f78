"""Each page of the console in a browser: before three nodes, with one of them killed, and without a quorum.

What a page shows comes from a real cluster. `Visit` fails if any page asks another host, breaks the content security
policy or raises an exception.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.testing.cluster import Cluster
from tests.console.browser.stand import Visit, chromium, console, nodes, orders, produce, skip_without_browser, visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ViewportSize

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("console-pages")]

COUNT = "SELECT count(*) AS n FROM topics.orders"
# What a page must say once it has settled.
PAGES = {
    "/": ["3 / 3", "Attention", "Events"],
    "/topics": ["orders", "hostile", "in sync"],
    "/topics/orders?start=earliest": ['"city": "Köln"}', "Live tail"],
    "/topics/orders/partitions": ["End offset"],
    "/topics/orders/groups": ["No group has read this topic"],
    "/topics/orders/settings": ["retention.ms"],
    "/groups": ["No consumer group"],
    "/nodes": ["3 of 3 nodes answer", "leader", "follower"],
    "/nodes?view=isr": ["orders / 0"],
    "/nodes?view=moves": ["No replicas are moving"],
    f"/sql?q={urllib.parse.quote(COUNT)}": ["300", "in "],
    "/pipelines": ["No pipeline has run"],
    "/letters": ["No pipeline has dead letters"],
    "/doctor": ["checks in"],
    "/security": ["check no access"],
    "/security/users": ["No user"],
    "/security/quotas": ["No client has a quota"],
    "/activity": ["through this console"],
    "/lab": ["Scenario"],
    "/nowhere": ["No such page"],
}
HOSTILE = [
    b"<script>window.hacked = 1</script>",
    b"<img src=x onerror='window.hacked = 1'>",
    b"\x1b[31mred\x1b[0m\x07",
    b"\xff\xfe\x00\x80",
    "\u202egnp.exe".encode(),
    b'{"n": 12345678901234567890}',
    None,
]
LARGE = 10_000_000
DESK: ViewportSize = {"width": 1280, "height": 720}
PHONE: ViewportSize = {"width": 390, "height": 844}
# Pages with something open on them.
OPEN = ("/topics/orders?start=earliest&record=1@5", "/topics/hostile?start=earliest&record=0@5")
# What lies beyond the right edge and cannot be scrolled to in a box of its own.
BEYOND = """() => {
    const scrolls = each => each && each.tagName !== 'MAIN'
        && (['auto', 'scroll'].includes(getComputedStyle(each).overflowX) || scrolls(each.parentElement));
    const all = [...document.querySelectorAll('.top *, .side, main *, .drawer *')];
    const beyond = all.filter(each => each.getClientRects().length && !each.closest('.skip')
        && each.getBoundingClientRect().right > innerWidth + 1 && !scrolls(each.parentElement));
    return beyond.map(each => `${each.tagName}.${each.getAttribute('class') ?? ''} ${each.textContent.slice(0, 40)}`);
}"""
# Text that has less contrast than 4.5 to 1 with what is behind it. Controls that are disabled may have less.
FAINT = """() => {
    const parts = color => color.match(/[\\d.]+/g).map(Number);
    const over = ([r, g, b, a = 1], under) => [r, g, b].map((each, i) => each * a + under[i] * (1 - a));
    const behind = each => {
        if (!each) return [255, 255, 255];
        const color = parts(getComputedStyle(each).backgroundColor);
        return color[3] === 0 ? behind(each.parentElement) : over(color, behind(each.parentElement));
    };
    const channel = each => (each /= 255) <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4;
    const light = color => 0.2126 * channel(color[0]) + 0.7152 * channel(color[1]) + 0.0722 * channel(color[2]);
    const found = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const {data, parentElement: each} = walker.currentNode;
        if (!data.trim() || !each.getClientRects().length || each.closest('svg, [disabled]')) continue;
        const under = behind(each);
        const pair = [light(over(parts(getComputedStyle(each).color), under)), light(under)].sort((a, b) => b - a);
        const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
        if (contrast < 4.5) found.add(`${contrast.toFixed(2)} ${each.className} ${each.textContent.slice(0, 40)}`);
    }
    return [...found];
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    skip_without_browser()
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def cluster(browser: Browser) -> Iterator[Cluster]:
    with nodes() as cluster:
        fill(cluster)
        yield cluster


def fill(cluster: Cluster) -> None:
    large = {"max.message.bytes": "20000000"}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    made = admin.create_topics([NewTopic("orders", 3, 3), NewTopic("hostile", 1, 3, config=large)])
    for future in made.values():
        future.result(30)
    produce(cluster, "orders", orders(300))
    produce(cluster, "hostile", [(b"<b>key</b>", value) for value in [*HOSTILE, b"x" * LARGE]])


@pytest.fixture(scope="module")
def address(cluster: Cluster) -> Iterator[str]:
    with console(cluster) as address:
        yield address


@pytest.fixture(scope="module")
def visiting(browser: Browser, address: str) -> Iterator[Visit]:
    with visit(browser, address) as visiting:
        yield visiting


def test_every_page_says_what_it_is_for(visiting: Visit) -> None:
    """A page that stays empty or raises shows nothing of this."""
    for path, words in PAGES.items():
        page = visiting.show(path)
        for word in words:
            page.get_by_text(word).first.wait_for(state="attached")
    assert visiting.troubles == []


def test_every_page_fits_on_a_phone(visiting: Visit) -> None:
    """Nothing lies beyond the right edge. Lists that are wider scroll in their own box."""
    visiting.page.set_viewport_size(PHONE)
    try:
        beyond = {path: visiting.show(path).evaluate(BEYOND) for path in (*PAGES, *OPEN)}
    finally:
        visiting.page.set_viewport_size(DESK)
    assert {path: found for path, found in beyond.items() if found} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(visiting: Visit, scheme: Literal["light", "dark"]) -> None:
    """By the rule of WCAG for small text."""
    visiting.page.emulate_media(color_scheme=scheme)
    try:
        faint = {path: visiting.show(path).evaluate(FAINT) for path in (*PAGES, *OPEN)}
    finally:
        visiting.page.emulate_media(color_scheme=None)
    assert {path: found for path, found in faint.items() if found} == {}


def test_the_first_page_is_painted(visiting: Visit, record_property: object) -> None:
    """How fast is printed, not asserted: that depends on the machine."""
    page = visiting.show("/")
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    loaded = page.evaluate(
        "performance.getEntriesByType('resource').reduce((sum, each) => sum + each.encodedBodySize, 0)"
    )
    print(f"first paint after {painted:.0f} ms, {loaded / 1024:.0f} KiB loaded")
    assert painted > 0


def test_hostile_values_are_shown_as_text(visiting: Visit) -> None:
    """Values reach the document as text nodes, and their control characters as escapes."""
    page = visiting.show("/topics/hostile?start=earliest")
    rows = page.locator("table[aria-label=Records] tbody tr[data-index]")
    rows.nth(5).wait_for()
    shown = page.locator("table[aria-label=Records]").inner_text()
    for text in (
        "<script>window.hacked = 1</script>",
        "onerror='window.hacked = 1'",
        "\\x1b[31mred",
        "fffe0080",
        "<b>key</b>",
    ):
        assert text in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert page.evaluate("window.hacked") is None
    assert page.locator("table[aria-label=Records] :is(script, img, b)").count() == 0


def test_a_number_keeps_all_of_its_digits(visiting: Visit) -> None:
    """JavaScript would round what has more than 53 bits, so values are indented without being parsed."""
    page = visiting.show("/topics/hostile?start=earliest&record=0@5")
    page.locator(".drawer .value-box", has_text="12345678901234567890").wait_for()


def test_all_of_a_large_value_can_be_loaded(visiting: Visit) -> None:
    page = visiting.show(f"/topics/hostile?start=earliest&record=0@{len(HOSTILE)}")
    page.get_by_text("The first 64 KiB of").wait_for()
    page.get_by_role("button", name="Load all").click()
    page.wait_for_function(f"() => document.querySelector('.drawer .value-box').textContent.length === {LARGE}")


def test_the_address_holds_what_a_page_shows(visiting: Visit) -> None:
    """A link that was sent to somebody else shows the same record."""
    page = visiting.show("/topics/orders?start=earliest")
    page.locator("tr[data-index='2']").click()
    page.locator(".drawer pre").wait_for()
    address, value = page.url, page.locator(".drawer pre").inner_text()
    assert "record=" in address
    page.goto("about:blank")
    page.goto(address)
    visiting.settle()
    page.locator(".drawer pre").wait_for()
    assert page.locator(".drawer pre").inner_text() == value


def test_records_go_on_in_both_directions(visiting: Visit) -> None:
    """From the newest record down to the oldest, although a page holds a hundred."""
    page = visiting.show("/topics/orders")
    page.locator("tr[data-index]").first.wait_for()
    for _ in range(40):
        if page.get_by_text("The oldest record that is kept.").count():
            break
        page.locator("main").evaluate("main => main.scrollTo(0, main.scrollHeight)")
        page.wait_for_timeout(50)
    page.get_by_text("The oldest record that is kept.").wait_for(state="attached")
    assert page.locator("table[aria-label=Records]").get_attribute("aria-rowcount") == "300"


def test_the_keyboard_goes_to_pages_and_through_lists(visiting: Visit) -> None:
    page = visiting.show("/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.get_by_role("heading", name="Topics").wait_for()
    page.locator("tr[data-index='1']").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="orders").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"


def test_a_console_that_only_reads_shows_the_command_and_refuses(visiting: Visit) -> None:
    page = visiting.show("/topics/orders/partitions")
    page.get_by_role("button", name="Add partitions").click()
    page.locator("dialog .command", has_text="orders").wait_for()
    page.get_by_text("This console only reads.").wait_for()
    assert page.get_by_role("button", name="Add", exact=True).is_disabled()


def test_a_seed_of_the_simulator_is_played(visiting: Visit) -> None:
    page = visiting.show("/lab")
    page.get_by_role("button", name="Play").click()
    page.locator("canvas.lanes").wait_for()
    page.get_by_text("passed").first.wait_for()
    assert page.locator("table[aria-label=Events] tr[data-index]").count() > 0


def test_a_failing_seed_shows_the_step_at_which_the_invariant_broke(visiting: Visit) -> None:
    """From the page alone: which invariant, at which step, and the event itself one click away."""
    page = visiting.show("/lab?scenario=wire&fault=played-back&seed=4")
    page.get_by_role("button", name="Play").click()
    failure = page.get_by_role("alert").filter(has_text="broke at")
    found = re.search(r"Invariant (.+) broke at ([\d.]+) s, step ([\d,]+)", failure.inner_text())
    assert found is not None
    failure.get_by_role("button", name="Go there").click()
    row = page.locator("table[aria-label=Events] tr.active")
    row.wait_for()
    assert [row.locator("td").nth(place).inner_text() for place in (0, 2)] == [found[3], "invariant"]
    assert f"VIOLATED {found[1]}" in row.inner_text()
    assert "fault=played-back" in page.url


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_page_works_with_a_node_down_and_without_a_quorum(browser: Browser) -> None:
    """That is when somebody looks. A page may say that it is incomplete; it must not stay empty or go on loading."""
    with nodes() as cluster:
        fill(cluster)
        with console(cluster) as address, visit(browser, address) as visiting:
            cluster.kill(3)
            visiting.page.get_by_text("2 / 3").first.wait_for(state="attached")
            walk(visiting)
            cluster.kill(2)
            visiting.show("/").get_by_text("The quorum is lost").first.wait_for()
            visiting.page.locator(".verdict", has_text="no quorum").wait_for()
            walk(visiting)
            visiting.show("/nodes").get_by_text("no answer").first.wait_for()


def walk(visiting: Visit) -> None:
    for path in PAGES:
        page = visiting.show(path)
        assert len(page.locator("main").inner_text()) > 40, path
