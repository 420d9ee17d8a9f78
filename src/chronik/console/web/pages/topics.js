// @ts-check
/** All topics, with a filter, an order, and a dialog that creates one. */
import { html, useState } from "../lib.js";
import { useRows } from "../api.js";
import { bytes, count, counted, rate } from "../format.js";
import { Badge, Change, Choice, Loaded, Page, Search } from "../parts.js";
import { go, parameter, place, to } from "../router.js";
import { Table } from "../table.js";
import Topic from "./topic.js";

export default () => (place.value.parts[1] ? html`<${Topic} key=${place.value.parts[1]} name=${place.value.parts[1]} />` : html`<${Topics} />`);

const COLUMNS = [
  { id: "name", title: "Topic", sort: "name", cell: (row) => html`<a class="mono" href=${to("topics", row.name)}>${row.name}</a>${row.is_internal && html` <${Badge}>internal<//>`}` },
  { id: "state", title: "State", width: "164px", kind: "wide", cell: (row) => html`<${TopicState} row=${row} />` },
  { id: "partitions", title: "Partitions", width: "105px", sort: "partitions", kind: "number wide", cell: (row) => count(row.partitions) },
  { id: "factor", title: "Replicas", width: "96px", kind: "number wide", cell: (row) => count(row.replication_factor) },
  { id: "records", title: "Records", width: "120px", sort: "records", kind: "number", cell: (row) => count(row.records) },
  { id: "size", title: "Size", width: "105px", sort: "size_bytes", kind: "number wide", cell: (row) => bytes(row.size_bytes) },
  { id: "rate", title: "Records in", width: "120px", sort: "messages_in_per_s", kind: "number wide", cell: (row) => rate(row.messages_in_per_s) },
];

/** @param {{row: any}} props */
const TopicState = ({ row }) =>
  row.offline
    ? html`<${Badge} kind="bad">${count(row.offline)} offline<//>`
    : row.under_replicated
      ? html`<${Badge} kind="warn">${count(row.under_replicated)} under-replicated<//>`
      : html`<${Badge} kind="good">in sync<//>`;

function Topics() {
  const [isCreating, setCreating] = useState(false);
  const search = parameter("search");
  const rows = useRows(
    "/topics",
    { search, internal: parameter("internal", "0"), sort: parameter("sort", "name"), order: parameter("order", "asc") },
    "topics",
    { everyMs: 5000 },
  );
  const total = rows.answer.data?.total;
  return html`<${Page} title="Topics" note=${total != null && (search ? `${count(rows.total)} of ${counted(total, "topic")}` : counted(rows.total, "topic"))}>
      <button onClick=${() => setCreating(true)}>Create a topic</button><//>
    <div class="bar"><div class="grow"><${Search} name="search" label="Filter topics by name" isMain /></div>
      <${Choice} name="internal" label="Internal topics" otherwise="0" options=${[["0", "hide"], ["1", "show"]]} /></div>
    <${Loaded} of=${rows.answer} empty=${() => rows.total === 0 && (search ? `No topic's name contains "${search}".` : "There are no topics yet. Create one, or produce to one.")}>
      ${() => html`<${Table} label="Topics" columns=${COLUMNS} count=${rows.total} row=${rows.row} onRange=${rows.onRange} defaultSort="name" href=${(row) => to("topics", row.name)} />`}<//>
    ${isCreating && html`<${Create} onClose=${() => setCreating(false)} />`}`;
}

/** @param {{onClose: () => void}} props */
function Create({ onClose }) {
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState(6);
  const [factor, setFactor] = useState(3);
  const [text, setText] = useState("");
  const configs = Object.fromEntries(text.split("\n").filter((line) => line.includes("=")).map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1).trim()]));
  return html`<${Change} title="Create a topic" path="/topics" body=${{ name, partitions, replication_factor: factor, configs }} isReady=${name !== ""} confirm="Create"
      onClose=${onClose} onDone=${() => (onClose(), go(to("topics", name)))}>
    <label class="field tall"><span>Name</span><input autofocus value=${name} onInput=${(event) => setName(event.target.value)} /></label>
    <div class="bar"><label class="field"><span>Partitions</span><input type="number" min="1" value=${partitions} onInput=${(event) => setPartitions(event.target.valueAsNumber)} /></label>
      <label class="field"><span>Replicas</span><input type="number" min="1" value=${factor} onInput=${(event) => setFactor(event.target.valueAsNumber)} /></label></div>
    <label class="field tall"><span>Settings, one per line, such as retention.ms=86400000</span><textarea rows="3" value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label><//>`;
}
