// @ts-check
/** Consumer groups: how far behind, for how long, why, and how to move their offsets. */
import { html, useState } from "../lib.js";
import { useGet, useRows } from "../api.js";
import { Chart, timesOf } from "../chart.js";
import { count, counted, duration, fromInput, rate, toInput, zoneName } from "../format.js";
import { Badge, Card, Change, Choice, Command, Figure, Loaded, Page, Prose, Search, Tabs } from "../parts.js";
import { go, parameter, place, to } from "../router.js";
import { Rows, Table } from "../table.js";

export default () => (place.value.parts[1] ? html`<${Group} key=${place.value.parts[1]} name=${place.value.parts[1]} />` : html`<${Groups} />`);

/** @param {{text: string}} props */
export const State = ({ text }) => html`<${Badge} kind=${text === "Stable" ? "good" : text === "Empty" || text === "Dead" ? "" : "warn"}>${text}<//>`;

/** How lag changes. @param {{perSecond: number|null, clearsInMs: number|null}} props */
const Trend = ({ perSecond, clearsInMs }) =>
  perSecond == null
    ? html`<span class="faint">–</span>`
    : clearsInMs != null
      ? html`<span class="good">↓ clear in ${duration(clearsInMs)}</span>`
      : perSecond > 0
        ? html`<span class="bad">↑ grows by ${rate(perSecond)}</span>`
        : html`<span class="muted">steady</span>`;

const COLUMNS = [
  { id: "name", title: "Group", sort: "name", cell: (row) => html`<a class="mono" href=${to("groups", row.group_id)}>${row.group_id}</a>` },
  { id: "state", title: "State", width: "120px", kind: "wide", cell: (row) => html`<${State} text=${row.state} />` },
  { id: "members", title: "Members", width: "105px", sort: "members", kind: "number wide", cell: (row) => count(row.members) },
  { id: "topics", title: "Topics", width: "16%", kind: "wide", cell: (row) => row.topics.map((name, index) => html`${index > 0 && ", "}<a class="mono" href=${to("topics", name)}>${name}</a>`) },
  { id: "lag", title: "Lag", width: "110px", sort: "lag", kind: "number", cell: (row) => count(row.lag) },
  { id: "time", title: "Behind", width: "105px", sort: "lag_ms", kind: "number wide", cell: (row) => duration(row.lag_ms) },
  { id: "trend", title: "Trend", width: "170px", kind: "wide", cell: (row) => html`<${Trend} perSecond=${row.lag_per_s} clearsInMs=${row.clears_in_ms} />` },
  { id: "why", title: "", width: "70px", cell: (row) => row.lag > 0 && html`<a href=${to("groups", row.group_id, "why")}>why?</a>` },
];

function Groups() {
  const search = parameter("search");
  const rows = useRows("/groups", { search, sort: parameter("sort", "lag"), order: parameter("order", "desc") }, "groups", { everyMs: 5000 });
  return html`<${Page} title="Groups" note=${rows.answer.data && counted(rows.total, "group")} />
    <div class="bar"><div class="grow"><${Search} name="search" label="Filter groups by name" isMain /></div></div>
    <${Loaded} of=${rows.answer} empty=${() => rows.total === 0 && (search ? `No group's name contains "${search}".` : "No consumer group has committed or joined yet.")}>
      ${() => html`<${Table} label="Groups" columns=${COLUMNS} count=${rows.total} row=${rows.row} onRange=${rows.onRange} defaultSort="lag" href=${(row) => to("groups", row.group_id)} />`}<//>`;
}

const TABS = /** @type {[string, string][]} */ ([["", "Lag"], ["why", "Why it lags"], ["members", "Members"]]);

/** @param {{name: string}} props */
function Group({ name }) {
  const tab = place.value.parts[2] ?? "";
  const answer = useGet(to("groups", name), {}, { everyMs: 3000 });
  const [dialog, setDialog] = useState("");
  const data = answer.data;
  return html`<${Page} title=${name} trail=${[["Groups", "/groups"]]} note=${data && html`<${State} text=${data.state} /> ${data.type} group${data.protocol ? `, ${data.protocol}` : ""} · coordinator <a href=${to("nodes", data.coordinator_id ?? "")}>node ${data.coordinator_id ?? "–"}</a>`}>
      <button disabled=${!data} onClick=${() => setDialog("reset")}>Reset offsets</button><button disabled=${!data} onClick=${() => setDialog("delete")}>Delete</button><//>
    <${Tabs} tabs=${TABS} base=${to("groups", name)} active=${tab} />
    ${tab === "why" ? html`<${Why} name=${name} />` : html`<${Loaded} of=${answer}>${() => (tab === "members" ? html`<${Members} data=${data} />` : html`<${Lag} data=${data} />`)}<//>`}
    ${dialog === "reset" && html`<${Reset} data=${data} onClose=${() => setDialog("")} onDone=${answer.reload} />`}
    ${dialog === "delete" && html`<${Change} title="Delete ${name}" path="${to("groups", name)}/delete" body=${{}} word=${name} isDangerous confirm="Delete the group" onClose=${() => setDialog("")} onDone=${() => go("/groups")}>
      <p>The group's offsets are lost. Its consumers, if they come back, begin where auto.offset.reset says.</p><//>`}`;
}

/** @param {{data: any}} props */
function Lag({ data }) {
  const columns = [
    { id: "partition", title: "Partition", cell: (row) => html`<a class="mono" href="${to("topics", row.topic)}?partition=${row.partition}${row.committed == null ? "" : `&start=offset:${row.committed}`}" title="Show the next record to read">${row.topic} / ${row.partition}</a>` },
    { id: "member", title: "Member", width: "24%", kind: "wide", cell: (row) => (row.member_id ? html`<span class="mono" title=${row.member_id}>${row.member_id}</span>` : html`<span class="warn">not read</span>`) },
    { id: "committed", title: "Committed", width: "120px", kind: "number", cell: (row) => (row.committed == null ? html`<span class="faint">no offset yet</span>` : count(row.committed)) },
    { id: "end", title: "End offset", width: "120px", kind: "number wide", cell: (row) => count(row.end_offset) },
    { id: "lag", title: "Lag", width: "110px", kind: "number", cell: (row) => html`<b>${count(row.lag)}</b>` },
    { id: "behind", title: "Behind", width: "110px", kind: "number wide", cell: (row) => duration(row.lag_ms) },
  ];
  return html`<div class="figures">
      <${Figure} label="Lag" kind=${data.lag > 0 && data.clears_in_ms == null ? "warn" : ""}>${count(data.lag)}<//><${Figure} label="Behind">${duration(data.lag_ms)}<//>
      <${Figure} label="Trend"><${Trend} perSecond=${data.lag_per_s} clearsInMs=${data.clears_in_ms} /><//><${Figure} label="Members">${count(data.members.length)}<//></div>
    <${History} name=${data.group_id} />
    ${data.partitions.length === 0
      ? html`<div class="empty">The group has committed no offset and reads no partition.</div>`
      : html`<${Rows} label="Partitions" columns=${columns} rows=${data.partitions} />`}`;
}

/** @param {{name: string}} props */
function History({ name }) {
  const hours = parameter("hours", "1");
  const answer = useGet(`${to("groups", name)}/history`, { hours, step: hours === "1" ? "2s" : "1m" }, { everyMs: hours === "1" ? 5000 : 60e3 });
  const isTime = parameter("unit") === "time";
  return html`<${Card} title="Lag over time" actions=${html`<${Choice} name="unit" label="In" options=${[["", "records"], ["time", "seconds"]]} />
      <${Choice} name="hours" label="Last" otherwise="1" options=${[["1", "hour"], ["6", "6 hours"], ["24", "24 hours"]]} />`}>
    <${Loaded} of=${answer}>${(data) => {
      const values = isTime ? data.lag_seconds : data.lag;
      return values.some((each) => each != null)
        ? html`<${Chart} label="Lag over time" times=${timesOf(data, values.length)} series=${[isTime ? { name: "Behind", values, color: "chart-2", format: (at) => duration(at == null ? null : at * 1000) } : { name: "Lag", values, color: "chart-1" }]} />`
        : html`<p class="calm muted">The console measures lag since it was started. The first values are here in a few seconds.</p>`;
    }}<//><//>`;
}

/** @param {{name: string}} props */
function Why({ name }) {
  const answer = useGet(`${to("groups", name)}/why`);
  if (answer.isLoading && !answer.data) return html`<div class="loading" role="status"><span class="spinner"></span> Looking at the group twice, six seconds apart …</div>`;
  return html`<${Loaded} of=${answer}>${(data) => html`<${Card} title=${data.verdict === "caught-up" ? "The group has caught up" : html`${counted(data.lag, "record")} behind${data.lag_without_offset > 0 && html` <span class="muted">(${count(data.lag_without_offset)} where it has no offset yet)</span>`}`} actions=${html`<button onClick=${answer.reload} disabled=${answer.isLoading}>${answer.isLoading ? "Looking …" : "Look again"}</button>`}>
    ${data.causes.length === 0 && html`<p class="calm">${data.verdict === "caught-up" ? html`<span class="good">✓</span> It has read everything there is.` : "No cause was found in six seconds. Look again while it lags."}</p>`}
    <ol class="causes">${data.causes.map((each) => html`<li><b>${each.text}</b>${each.action && html`<p><${Prose} text=${each.action} /></p>`}<span class="faint mono">${each.name}</span></li>`)}</ol>
    <${Command} text=${data.command} /><//>`}<//>`;
}

/** @param {{data: any}} props */
function Members({ data }) {
  if (data.members.length === 0) return html`<div class="empty"><p>The group has no members: none of its consumers is running.</p></div>`;
  return html`<div class="cards">${data.members.map((each) => html`<${Card} key=${each.member_id} title=${html`<span class="mono">${each.client_id}</span>`} actions=${html`<span class="muted">lag <b>${count(each.lag)}</b></span>`}>
    <dl class="pairs"><dt>Host</dt><dd class="mono">${each.host}</dd><dt>Member</dt><dd class="mono">${each.member_id}</dd>${each.instance_id && html`<dt>Static id</dt><dd class="mono">${each.instance_id}</dd>`}
      <dt>Reads</dt><dd>${each.partitions.length === 0 ? html`<span class="warn">no partition: the group has more members than partitions</span>` : each.partitions.map((at) => html`<span class="replica">${at.topic}/${at.partition}</span>`)}</dd></dl><//>`)}</div>`;
}

/** @param {{data: any, onClose: () => void, onDone: () => void}} props */
function Reset({ data, onClose, onDone }) {
  const [kind, setKind] = useState("earliest");
  const [at, setAt] = useState(Date.now() - 3600e3);
  const [text, setText] = useState("0");
  const topics = [...new Set(data.partitions.map((each) => each.topic))];
  const [topic, setTopic] = useState("");
  const target = kind === "time" ? `time:${at}` : kind === "offset" ? text : kind;
  return html`<${Change} title="Reset ${data.group_id}" path="${to("groups", data.group_id)}/reset" body=${topic ? { to: target, topics: [topic] } : { to: target }} isDangerous confirm="Reset the offsets" onClose=${onClose} onDone=${onDone}>
    ${data.members.length > 0 && html`<div class="notice warn"><div>The group has ${counted(data.members.length, "member")}. Stop them first, or they overwrite the new offsets.</div></div>`}
    <div class="bar"><label class="field"><span>To</span><select value=${kind} onChange=${(event) => setKind(event.target.value)}>
        <option value="earliest">the first record</option><option value="latest">the end</option><option value="time">a time</option><option value="offset">an offset, or +N or −N</option></select></label>
      ${kind === "time" && html`<label class="field"><input type="datetime-local" step="0.001" aria-label="Time" value=${toInput(at)} onChange=${(event) => setAt(fromInput(event.target.value))} /><span>${zoneName(at)}</span></label>`}
      ${kind === "offset" && html`<input class="mono" aria-label="Offset" value=${text} onInput=${(event) => setText(event.target.value)} />`}
      ${topics.length > 1 && html`<label class="field"><span>Topic</span><select value=${topic} onChange=${(event) => setTopic(event.target.value)}><option value="">all</option>${topics.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>`}</div><//>`;
}
