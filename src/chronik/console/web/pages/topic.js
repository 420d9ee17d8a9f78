// @ts-check
/** One topic: records, partitions, groups and settings. */
import { html, useState } from "../lib.js";
import { useGet } from "../api.js";
import { bytes, byteRate, count, counted, duration, rate } from "../format.js";
import { Badge, Change, Figure, Loaded, Page, Prose, Search, Tabs } from "../parts.js";
import { go, parameter, place, to } from "../router.js";
import { Rows } from "../table.js";
import { State } from "./groups.js";
import Records from "./records.js";

const TABS = /** @type {[string, string][]} */ ([["", "Records"], ["partitions", "Partitions"], ["groups", "Groups"], ["settings", "Settings"]]);

/** @param {{name: string}} props */
export default function Topic({ name }) {
  const tab = place.value.parts[2] ?? "";
  const answer = useGet(to("topics", name), {}, { everyMs: 5000 });
  const [dialog, setDialog] = useState("");
  const close = () => setDialog("");
  const data = answer.data;
  return html`<${Page} title=${name} trail=${[["Topics", "/topics"]]}
      note=${data && html`${counted(data.partitions.length, "partition")} · ${counted(data.replication_factor, "replica")} · ${count(data.records)} records · ${bytes(data.size_bytes)} on all replicas · ${rate(data.messages_in_per_s)} in`}>
      ${data?.letters_topic && html`<a class="button" href=${to("letters", data.letters_topic)}>Dead letters</a>`}
      <button onClick=${() => setDialog("partitions")} disabled=${!data}>Add partitions</button>
      <button onClick=${() => setDialog("delete")}>Delete</button><//>
    <${Tabs} tabs=${TABS} base=${to("topics", name)} active=${tab} />
    ${tab === "" ? html`<${Records} path=${to("topics", name)} topic=${name} />` : null}
    ${tab === "partitions" && html`<${Loaded} of=${answer}>${() => html`<${Partitions} data=${data} />`}<//>`}
    ${tab === "groups" && html`<${Groups} name=${name} />`}
    ${tab === "settings" && html`<${Settings} name=${name} />`}
    ${dialog === "delete" && html`<${Change} title="Delete ${name}" path="${to("topics", name)}/delete" body=${{}} confirm="Delete the topic" isDangerous word=${name} onClose=${close} onDone=${() => go("/topics")}>
      <p>All records of <b class="mono">${name}</b> are lost${data && html`: ${counted(data.records ?? 0, "record")}, ${bytes(data.size_bytes)}`}. Groups keep their offsets until these expire.</p><//>`}
    ${dialog === "partitions" && html`<${AddPartitions} name=${name} now=${data.partitions.length} onClose=${close} onDone=${answer.reload} />`}`;
}

/** @param {{name: string, now: number, onClose: () => void, onDone: () => void}} props */
function AddPartitions({ name, now, onClose, onDone }) {
  const [total, setTotal] = useState(now + 1);
  return html`<${Change} title="Add partitions to ${name}" path="${to("topics", name)}/partitions" body=${{ count: total }} isReady=${total > now} confirm="Add" onClose=${onClose} onDone=${onDone}>
    <p>Keys are spread over partitions by their hash: after this, new records of a key may go to another partition than older ones.</p>
    <label class="field"><span>New total</span><input type="number" min=${now + 1} value=${total} onInput=${(event) => setTotal(event.target.valueAsNumber)} /></label><//>`;
}

const PARTITION_COLUMNS = [
  { id: "partition", title: "Partition", width: "90px", kind: "number", cell: (row) => row.partition },
  { id: "leader", title: "Leader", width: "90px", cell: (row) => (row.leader_id == null ? html`<${Badge} kind="bad">none<//>` : html`<a href=${to("nodes", row.leader_id)}>${row.leader_id}</a>`) },
  { id: "replicas", title: "Replicas", cell: (row) => row.replicas.map((id) => html`<span class="replica ${row.offline.includes(id) ? "bad" : row.isr.includes(id) ? "good" : "warn"}" title=${row.offline.includes(id) ? "offline" : row.isr.includes(id) ? "in sync" : "lagging"}>${id}${row.offline.includes(id) ? " ✕" : row.isr.includes(id) ? "" : " …"}</span>`) },
  { id: "move", title: "", width: "150px", kind: "wide", cell: (row) => row.move && html`<${Badge} kind="accent">moves to ${row.move.adding.join(", ")}<//>` },
  { id: "epoch", title: "Epoch", width: "80px", kind: "number wide", cell: (row) => count(row.leader_epoch) },
  { id: "start", title: "First offset", width: "120px", kind: "number wide", cell: (row) => count(row.start_offset) },
  { id: "end", title: "End offset", width: "120px", kind: "number", cell: (row) => count(row.end_offset) },
  { id: "size", title: "Size", width: "110px", kind: "number wide", cell: (row) => bytes(Object.values(row.sizes_bytes ?? {})[0] ?? null) },
];

/** @param {{data: any}} props */
const Partitions = ({ data }) => html`<div class="figures"><${Figure} label="Records in">${rate(data.messages_in_per_s)}<//><${Figure} label="Bytes in">${byteRate(data.bytes_in_per_s)}<//><${Figure} label="Bytes out">${byteRate(data.bytes_out_per_s)}<//></div>
  <${Rows} label="Partitions" columns=${PARTITION_COLUMNS} rows=${data.partitions} />`;

/** @param {{name: string}} props */
function Groups({ name }) {
  const answer = useGet(`${to("topics", name)}/groups`, {}, { everyMs: 5000 });
  const columns = [
    { id: "group", title: "Group", cell: (row) => html`<a class="mono" href=${to("groups", row.group_id)}>${row.group_id}</a>` },
    { id: "state", title: "State", width: "110px", cell: (row) => html`<${State} text=${row.state} />` },
    { id: "members", title: "Members", width: "100px", kind: "number wide", cell: (row) => count(row.members) },
    { id: "lag", title: "Lag", width: "120px", kind: "number", cell: (row) => count(row.lag) },
    { id: "time", title: "Behind", width: "120px", kind: "number wide", cell: (row) => duration(row.lag_ms) },
  ];
  return html`<${Loaded} of=${answer} empty=${(data) => data.groups.length === 0 && "No group has read this topic."}>
    ${(data) => html`<${Rows} label="Groups" columns=${columns} rows=${data.groups} href=${(row) => to("groups", row.group_id)} />`}<//>`;
}

/** @param {{name: string}} props */
function Settings({ name }) {
  const answer = useGet(`${to("topics", name)}/configs`);
  const [edited, setEdited] = useState(/** @type {any} */ (null));
  const text = parameter("setting").toLowerCase();
  return html`<div class="bar"><div class="grow"><${Search} name="setting" label="Filter settings" isMain /></div></div>
    <${Loaded} of=${answer}>${(data) => html`<div class="settings">${data.configs
      .filter((each) => !text || each.name.includes(text) || (each.documentation ?? "").toLowerCase().includes(text))
      .map((each) => html`<article key=${each.name}><div><h3 class="mono">${each.name} <${Badge} kind=${each.source === "topic" ? "accent" : ""}>${each.source}<//></h3><p class="muted"><${Prose} text=${each.documentation} /></p></div>
        <div class="value mono">${each.is_sensitive ? "hidden" : (each.value ?? "null")} ${human(each)}</div>
        <button class="quiet" disabled=${each.is_read_only} onClick=${() => setEdited(each)}>Change</button></article>`)}</div>`}<//>
    ${edited && html`<${Edit} key=${edited.name} path="${to("topics", name)}/configs" entry=${edited} onClose=${() => setEdited(null)} onDone=${answer.reload} />`}`;
}

/** @param {any} entry */
function human(entry) {
  const value = Number(entry.value);
  if (entry.value === "" || entry.value == null || Number.isNaN(value) || value < 1000) return null;
  if (entry.name.endsWith(".ms")) return html`<span class="muted">${value > 1e15 ? "no limit" : duration(value)}</span>`;
  return entry.name.endsWith("bytes") ? html`<span class="muted">${value > 1e15 ? "no limit" : bytes(value)}</span>` : null;
}

/** @param {{path: string, entry: any, onClose: () => void, onDone: () => void}} props */
function Edit({ path, entry, onClose, onDone }) {
  const [value, setValue] = useState(entry.value ?? "");
  const [isUnset, setUnset] = useState(false);
  const body = isUnset ? { set: {}, unset: [entry.name] } : { set: { [entry.name]: value }, unset: [] };
  return html`<${Change} title="Change ${entry.name}" path=${path} body=${body} isReady=${isUnset || value !== entry.value} confirm="Change" onClose=${onClose} onDone=${onDone}>
    <p class="muted"><${Prose} text=${entry.documentation} /></p>
    <label class="field tall"><span>Value (${entry.type})</span><input class="mono" value=${value} disabled=${isUnset} onInput=${(event) => setValue(event.target.value)} /></label>
    ${entry.source === "topic" && html`<label class="field"><input type="checkbox" checked=${isUnset} onChange=${(event) => setUnset(event.target.checked)} /> Remove it from the topic, so that the value of the broker applies</label>`}<//>`;
}
