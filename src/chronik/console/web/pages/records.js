// @ts-check
/** The records of a topic: from any time or offset, in both directions without end, filtered, and as they arrive. */
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib.js";
import { get, stream } from "../api.js";
import { bytes, count, counted, fromInput, rate, time, timeOfDay, toInput, zoneName } from "../format.js";
import { Failure, Loading, Missing } from "../parts.js";
import { parameter, place, setQuery } from "../router.js";
import { isNarrow, ROW_HEIGHT, Table } from "../table.js";
import { Inline } from "../values.js";
import Histogram from "./histogram.js";
import Detail from "./record.js";

const KEPT_MAX = 5000;
const TAIL_MAX = 2000;
const PAGE = 100;
const LOOKED_WORDS = /** @type {Record<string, string>} */ ({ bytes: "the limit of bytes", time: "the limit of time", records: "50,000 records" });

/** @param {{path: string, topic: string, extra?: any, columns?: any[], selection?: any}} props `path` answers with pages of records. */
export default function Records({ path, topic, extra = {}, columns = [] }) {
  const isTail = parameter("tail") === "1";
  const chosen = parameter("record");
  const list = isTail ? useTail(topic) : usePages(path, extra);
  const table = [
    { id: "time", title: `Time (${zoneName()})`, width: isNarrow.value ? "112px" : "210px", kind: "mono", cell: (row) => html`<time title=${time(row.timestamp_ms)}>${time(row.timestamp_ms).slice(isNarrow.value ? 11 : 0)}</time>` },
    { id: "offset", title: "Partition @ offset", width: "165px", kind: "mono wide", cell: (row) => html`<a href=${linkTo(row)}>${row.partition} @ ${count(row.offset)}</a>` },
    ...columns,
    { id: "key", title: "Key", width: "14%", kind: "mono", cell: (row) => html`<${Inline} value=${row.key} length=${80} />` },
    { id: "value", title: "Value", kind: "mono", cell: (row) => html`<${Inline} value=${row.value} />` },
    { id: "size", title: "Size", width: "90px", kind: "number wide", cell: (row) => bytes(row.size_bytes) },
  ];
  return html`${!extra.isLetters && html`<${Controls} partitions=${list.partitions} isTail=${isTail} />`}
    ${!isTail && !extra.isLetters && html`<${Histogram} topic=${topic} />`}
    ${list.status}
    ${list.error && html`<${Failure} error=${list.error} again=${list.again} />`}
    ${list.missing?.length > 0 && html`<${Missing} parts=${list.missing} />`}
    ${list.rows.length > 0
      ? html`<${Table} label="Records" columns=${table} count=${list.rows.length} row=${(index) => list.rows[index]} onRange=${list.onRange}
          onOpen=${(row) => setQuery({ record: `${row.partition}@${row.offset}` }, true)}
          active=${(row) => `${row.partition}@${row.offset}` === chosen} before=${list.before} after=${list.after} />`
      : list.isLoading
        ? html`<${Loading} />`
        : !list.error && html`<div class="empty">${list.missing?.length ? "Nothing is known while parts are missing." : list.empty}${list.after && html`<p>${list.after}</p>`}</div>`}
    ${chosen && html`<${Detail} key=${chosen} topic=${topic} place=${chosen} letter=${list.rows.find((row) => `${row.partition}@${row.offset}` === chosen)?.letter} />`}`;
}

/** @param {any} row */
function linkTo(row) {
  const query = new URLSearchParams(place.value.query);
  query.set("record", `${row.partition}@${row.offset}`);
  return `${place.value.path}?${query}`;
}

/** @param {{partitions: any[]|null, isTail: boolean}} props */
function Controls({ partitions, isTail }) {
  const start = parameter("start", "latest");
  const where = parameter("where");
  const [text, setText] = useState(where);
  useEffect(() => setText(where), [where]);
  const kind = start.startsWith("time:") ? "time" : start.startsWith("offset:") ? "offset" : start;
  const begin = (value) => setQuery({ start: value === "latest" ? null : value, cursor: null, direction: null, tail: null }, true);
  const choose = (value) => begin(value === "time" ? `time:${Date.now() - 3600e3}` : value === "offset" ? "offset:0" : value);
  const submit = (event) => {
    event.preventDefault();
    setQuery({ where: text.trim(), cursor: null }, true);
  };
  return html`<form class="bar" onSubmit=${submit}>
    <label class="field"><span>From</span><select value=${kind} disabled=${isTail} onChange=${(event) => choose(event.target.value)}>
      <option value="latest">newest</option><option value="earliest">oldest</option><option value="time">time</option><option value="offset">offset</option></select></label>
    ${kind === "time" && html`<input type="datetime-local" step="0.001" aria-label="Time (${zoneName()})" value=${toInput(Number(start.slice(5)))} disabled=${isTail}
      onChange=${(event) => event.target.value && begin(`time:${fromInput(event.target.value)}`)} />
      ${/** @type {[string, number][]} */ ([["5 m", 300e3], ["1 h", 3600e3], ["1 d", 86400e3]]).map(([name, ms]) => html`<button type="button" class="quiet" title="${name} ago" onClick=${() => begin(`time:${Date.now() - ms}`)}>−${name}</button>`)}`}
    ${kind === "offset" && html`<input type="number" min="0" aria-label="Offset" value=${start.slice(7)} onChange=${(event) => begin(`offset:${event.target.value}`)} />`}
    <label class="field"><span>Partition</span><select value=${parameter("partition", "")} onChange=${(event) => setQuery({ partition: event.target.value, cursor: null })}>
      <option value="">all</option>${(partitions ?? []).map((each) => html`<option value=${each.partition}>${each.partition}</option>`)}
      ${!partitions && parameter("partition") && html`<option value=${parameter("partition")}>${parameter("partition")}</option>`}</select></label>
    <label class="field grow"><span>Where</span><input class="mono grow" value=${text} data-filter="true" placeholder="value->>'$.city' = 'Köln'  AND  offset > 100" spellcheck=${false}
      title="A condition in SQL over partition, offset, timestamp, key, value, headers, size_bytes" onInput=${(event) => setText(event.target.value)} /></label>
    ${text.trim() !== where && html`<button class="primary">Apply</button>`}
    ${where !== "" && text.trim() === where && html`<button type="button" onClick=${() => setQuery({ where: null, cursor: null })}>Clear</button>`}
    <button type="button" aria-pressed=${isTail} onClick=${() => setQuery({ tail: isTail ? null : "1", cursor: null, record: null }, true)}>${isTail ? "■ Stop the tail" : "▶ Live tail"}</button>
  </form>`;
}

/** Pages around a cursor. Newest first from the end of the topic, oldest first from everywhere else.
 * @param {string} path @param {any} extra */
function usePages(path, { isLetters, ...extra }) {
  const start = parameter("start", "latest");
  const where = parameter("where");
  const partition = parameter("partition");
  const key = JSON.stringify([path, start, where, partition, extra]);
  const isDown = parameter("cursor") ? parameter("direction") === "backward" : start === "latest";
  const [state, setState] = useState(/** @type {any} */ ({ key: "", pages: [], isLoading: true, error: null }));
  const added = useRef(0); // rows put above those in view, for which the view has to move
  const busy = useRef(false);
  const now = useRef(state);
  now.current = state;

  const fetchPage = (from, isForward) =>
    get(isLetters ? path : `${path}/records`, { ...extra, ...from, ...(isLetters ? {} : { where }), direction: isForward ? "forward" : "backward", limit: PAGE, ...(isLetters ? {} : { value_bytes: 600 }) });

  const restart = async () => {
    busy.current = true;
    setState({ key, pages: [], isDown, isLoading: true, error: null });
    const cursor = parameter("cursor");
    const from = cursor ? { cursor } : { start: isLetters ? undefined : start, partition: partition === "" || isLetters ? undefined : partition };
    try {
      const page = await fetchPage(from, !isDown);
      setState((was) => (was.key === key ? { ...was, pages: [page], isLoading: false } : was));
    } catch (error) {
      setState((was) => (was.key === key ? { ...was, isLoading: false, error } : was));
    }
    busy.current = false;
  };
  useEffect(() => void restart(), [key]);

  const more = async (isBelow) => {
    const { pages } = now.current;
    if (busy.current || !pages.length || now.current.key !== key) return;
    busy.current = true;
    const isForward = isBelow !== now.current.isDown;
    const edge = isBelow ? pages[pages.length - 1] : pages[0];
    try {
      const page = await fetchPage({ cursor: isForward ? edge.next : edge.previous }, isForward);
      setState((was) => {
        if (was.key !== key) return was;
        if (!isBelow) added.current += page.records.length;
        return { ...was, error: null, pages: cut(isBelow ? [...was.pages, page] : [page, ...was.pages], isBelow) };
      });
    } catch (error) {
      setState((was) => ({ ...was, error }));
    }
    busy.current = false;
  };
  const cut = (pages, isBelow) => {
    const kept = [...pages];
    let total = kept.reduce((sum, page) => sum + page.records.length, 0);
    while (total > KEPT_MAX) {
      const gone = (isBelow ? kept.shift() : kept.pop()).records.length;
      total -= gone;
      if (isBelow) added.current -= gone;
    }
    return kept;
  };
  useLayoutEffect(() => {
    if (added.current) document.querySelector("main")?.scrollBy(0, added.current * ROW_HEIGHT);
    added.current = 0;
  }, [state.pages]);

  const isNewestFirst = state.isDown;
  const rows = state.pages.flatMap((page) => (isNewestFirst ? [...page.records].reverse() : page.records));
  const [first, last] = [state.pages[0], state.pages[state.pages.length - 1]];
  const hasAbove = first && (isNewestFirst ? first.has_next : first.has_previous);
  const hasBelow = last && (isNewestFirst ? last.has_previous : last.has_next);
  const looked = last?.stopped_by ? `Looked at ${counted(last.scanned, "record")} and stopped at ${LOOKED_WORDS[last.stopped_by] ?? last.stopped_by}. ` : "";
  const timer = useRef(0);
  const onRange = (from, until) => {
    if (hasBelow && !looked && until > rows.length - 30) more(true);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => remember(now.current, from), 400);
  };
  return {
    rows,
    error: state.error,
    again: restart,
    missing: last?.missing,
    partitions: last?.partitions ?? null,
    isLoading: state.isLoading,
    status: null,
    onRange,
    before: isNewestFirst
      ? html`<button class="link" onClick=${() => more(false)}>${hasAbove ? "Newer records" : "Look for newer records"}</button>`
      : hasAbove && html`<button class="link" onClick=${() => more(false)}>Earlier records</button>`,
    after: hasBelow
      ? html`${looked}<button class="link" onClick=${() => more(true)}>${looked ? "Go on" : "More"}</button>`
      : isNewestFirst
        ? "The oldest record that is kept."
        : html`The end of the topic. <button class="link" onClick=${() => more(true)}>Look for newer records</button>`,
    empty: where ? "No record meets the condition here." : isLetters ? "No letter is like this." : "There are no records here yet.",
  };
}

/** Puts the place in view into the address. @param {any} state @param {number} row */
function remember(state, row) {
  let left = row;
  const at = state.pages.findIndex((page) => (left -= page.records.length) < 0);
  if (at <= 0 && !place.value.query.has("cursor")) return;
  const page = state.pages[Math.max(0, at)];
  if (page) setQuery({ cursor: state.isDown ? page.next : page.previous, direction: state.isDown ? "backward" : "forward" });
}

/** The newest records as they arrive, newest first. @param {string} topic */
function useTail(topic) {
  const where = parameter("where");
  const partition = parameter("partition");
  const [isPaused, setPaused] = useState(false);
  const [state, setState] = useState(/** @type {any} */ ({ rows: [], per_s: null, skipped: 0, arrived: 0, isOpen: false, error: null }));
  useEffect(() => setState({ rows: [], per_s: null, skipped: 0, arrived: 0, isOpen: false, error: null }), [topic, where, partition]);
  useEffect(() => {
    if (isPaused) return;
    return stream(
      `/topics/${encodeURIComponent(topic)}/tail`,
      { where, partition, value_bytes: 600, rate: 200 },
      {
        records: (data) =>
          setState((was) => ({
            ...was,
            error: null,
            per_s: data.per_s,
            skipped: was.skipped + data.skipped,
            arrived: was.arrived + data.arrived,
            rows: data.records.length ? [...[...data.records].reverse(), ...was.rows].slice(0, TAIL_MAX) : was.rows,
          })),
        failed: (data) => setState((was) => ({ ...was, error: data.error })),
        ended: () => setPaused(true),
      },
      (isOpen) => setState((was) => ({ ...was, isOpen })),
    );
  }, [topic, where, partition, isPaused]);
  const status = html`<div class="bar tail"><span class="badge ${isPaused ? "warn" : state.isOpen ? "good" : "bad"}"><span class="dot"></span> ${isPaused ? "paused" : state.isOpen ? "live" : "connecting"}</span>
    <b>${rate(state.per_s)}</b><span class="muted">${counted(state.arrived, "record")} arrived${state.skipped > 0 && `, ${count(state.skipped)} of them not shown: more arrives than can be read`}</span>
    <button type="button" onClick=${() => setPaused(!isPaused)}>${isPaused ? "Resume" : "Pause"}</button></div>`;
  return {
    rows: state.rows,
    error: state.error,
    again: undefined,
    missing: [],
    partitions: null,
    isLoading: false,
    status,
    onRange: undefined,
    before: null,
    after: state.rows.length === TAIL_MAX ? `The newest ${count(TAIL_MAX)} are kept here.` : null,
    empty: isPaused ? "Paused." : `Nothing has arrived since ${timeOfDay(Date.now())}.`,
  };
}
