// @ts-check
/** One record beside the list: key, value, headers, what changed since the previous one of its key, and sending it again. */
import { html, useState } from "../lib.js";
import { address, useGet } from "../api.js";
import { bytes, count, time, zoneName, ago } from "../format.js";
import { Badge, Change, Command, Loaded } from "../parts.js";
import { setQuery, to } from "../router.js";
import { coloured, difference, dump, indented, Inline, lines, visible } from "../values.js";

const FIRST_BYTES = 65536;

/** @param {{topic: string, place: string, letter?: any}} props `place` is PARTITION@OFFSET. */
export default function Detail({ topic, place, letter }) {
  const [partition, offset] = place.split("@").map(Number);
  const path = `${to("topics", topic, "records")}/${partition}/${offset}`;
  const answer = useGet(path, { value_bytes: FIRST_BYTES });
  const [view, setView] = useState("value");
  const [dialog, setDialog] = useState("");
  const close = () => setQuery({ record: null });
  const record = answer.data?.record;
  return html`<aside class="drawer" aria-label="Record ${place}">
    <header><div><h2 class="mono">${topic} / ${partition} @ ${count(offset)}</h2>
      ${record && html`<p class="muted">${time(record.timestamp_ms)} ${zoneName(record.timestamp_ms)}, ${ago(record.timestamp_ms)} · ${record.timestamp_type} time · ${bytes(record.size_bytes)}</p>`}</div>
      <button class="quiet icon" data-escape aria-label="Close" onClick=${close}>✕</button></header>
    <div class="body"><${Loaded} of=${answer}>${() => html`
      ${letter && html`<div class="notice bad"><div><strong>${letter.error}</strong> <span class="muted">in flow ${letter.pipeline}/${letter.flow}</span><p>${visible(letter.message ?? "")}</p>
        <p class="muted">From <a class="mono" href="${to("topics", letter.topic)}?record=${letter.partition}@${letter.offset}">${letter.topic} / ${letter.partition} @ ${count(letter.offset)}</a></p></div></div>`}
      <dl class="pairs"><dt>Key</dt><dd class="mono"><${Inline} value=${record.key} length=${2000} /></dd></dl>
      <div class="bar"><div class="segments" role="group" aria-label="View">
        ${[["value", "Value"], ["raw", "As written"], ["headers", `Headers (${record.headers.length})`], ["changes", "Changes"], ["links", "Links"]].map(([id, text]) => html`<button aria-pressed=${view === id} onClick=${() => setView(id)}>${text}</button>`)}</div>
        <span class="grow"></span><button onClick=${() => setDialog("resend")}>Send again</button><button onClick=${() => setDialog("edit")}>Edit and send</button></div>
      ${(view === "value" || view === "raw") && html`<${Value} value=${record.value} path=${path} isRaw=${view === "raw"} />`}
      ${view === "headers" && html`<${Headers} headers=${record.headers} />`}
      ${view === "changes" && html`<${Changes} path=${path} record=${record} topic=${topic} />`}
      ${view === "links" && html`<${Links} links=${answer.data.links} path=${path} />`}
      ${dialog === "resend" && html`<${Change} title="Send the record again" path="${to("topics", topic)}/resend" body=${{ records: [{ partition, offset }], to: topic }} confirm="Send" onClose=${() => setDialog("")}>
        <p>Appends a copy with the same key, value and headers to <b class="mono">${topic}</b>. Readers of the topic get it as a new record.</p><//>`}
      ${dialog === "edit" && html`<${Edit} topic=${topic} record=${record} onClose=${() => setDialog("")} />`}`}<//></div>
  </aside>`;
}

/** @param {{value: import("../values.js").Value|null, path: string, isRaw: boolean}} props */
function Value({ value, path, isRaw }) {
  const [all, setAll] = useState(/** @type {string|null} */ (null));
  const [isBusy, setBusy] = useState(false);
  if (value === null) return html`<div class="value-box faint">null: a tombstone; in a compacted topic it deletes its key</div>`;
  const text = all ?? value.text;
  const load = async () => {
    setBusy(true);
    const answer = await fetch(address(`${path}/raw`, { part: "value" }));
    const content = new Uint8Array(await answer.arrayBuffer());
    setAll(value.kind === "hex" ? [...content].map((byte) => byte.toString(16).padStart(2, "0")).join("") : new TextDecoder().decode(content));
    setBusy(false);
  };
  const isPart = value.is_truncated && all === null;
  const shown = value.kind === "hex" ? dump(text) : visible(isRaw || value.kind !== "json" ? text : indented(text));
  return html`${isPart && html`<div class="notice warn"><div>The first ${bytes(FIRST_BYTES)} of ${bytes(value.size_bytes)}.</div>
      <div class="actions"><button onClick=${load} disabled=${isBusy}>${isBusy ? "Loading …" : "Load all"}</button></div></div>`}
    <pre class="value-box" tabindex="0">${value.kind === "json" && !isRaw ? coloured(shown) : shown}</pre>
    <p class="muted"><${Badge}>${value.kind === "hex" ? "not UTF-8" : value.kind}<//> ${bytes(value.size_bytes)} · <a href=${address(`${path}/raw`, { part: "value" })} download>Download the bytes</a></p>`;
}

/** @param {{headers: any[]}} props */
const Headers = ({ headers }) =>
  headers.length === 0
    ? html`<p class="muted">The record has no headers.</p>`
    : html`<table class="plain"><thead><tr><th>Name</th><th>Value</th></tr></thead><tbody>${headers.map((each) => html`<tr><td class="mono">${visible(each.key)}</td><td class="mono wrap"><${Inline} value=${each.value} length=${2000} /></td></tr>`)}</tbody></table>`;

/** @param {{path: string, record: any, topic: string}} props */
function Changes({ path, record, topic }) {
  const [from, setFrom] = useState(/** @type {number|null} */ (null));
  const answer = useGet(`${path}/previous`, { from_offset: from });
  if (record.key === null) return html`<p class="muted">The record has no key, so there is no previous one to compare with.</p>`;
  return html`<${Loaded} of=${answer}>${(data) => {
    if (!data.record)
      return html`<p class="muted">${data.stopped_by ? `No record with this key from offset ${count(data.searched_to_offset)} on. ` : "This is the first record of its key that is kept."}
        ${data.stopped_by && html`<button onClick=${() => setFrom(data.searched_to_offset)}>Search further back</button>`}</p>`;
    const before = data.record;
    return html`<p class="muted">Compared with <a class="mono" href="${to("topics", topic)}?record=${before.partition}@${before.offset}">offset ${count(before.offset)}</a>, ${time(before.timestamp_ms)}</p>
      <pre class="value-box diff">${difference(lines(before.value), lines(record.value)).map(([kind, text]) => html`<span class=${kind === "+" ? "added" : kind === "-" ? "removed" : ""}>${kind} ${text}${"\n"}</span>`)}</pre>`;
  }}<//>`;
}

/** @param {{links: any, path: string}} props */
const Links = ({ links, path }) => html`<h3>On the command line</h3><${Command} text=${links?.command} />
  <h3>In Python</h3><pre class="value-box">${links?.python}</pre>
  <h3>Bytes</h3><p><a href=${address(`${path}/raw`, { part: "key" })} download>Key</a> · <a href=${address(`${path}/raw`, { part: "value" })} download>Value</a></p>`;

/** @param {import("../values.js").Value|null} value */
export const asBytes = (value) => (value === null ? null : value.kind === "hex" ? { base64: btoa(String.fromCharCode(...(value.text.match(/../g) ?? []).map((pair) => parseInt(pair, 16)))) } : { text: value.text });

/** @param {{topic: string, record: any, onClose: () => void}} props */
function Edit({ topic, record, onClose }) {
  const [key, setKey] = useState(record.key);
  const [value, setValue] = useState(record.value && record.value.kind === "json" ? { ...record.value, text: indented(record.value.text) } : record.value);
  const isWhole = !record.value?.is_truncated && !record.key?.is_truncated;
  const body = { partition: null, key: asBytes(key), value: asBytes(value), headers: record.headers.map((each) => ({ key: each.key, value: asBytes(each.value) })) };
  const change = (set) => (event) => set({ kind: "text", text: event.target.value, size_bytes: 0, is_truncated: false });
  if (!isWhole) return html`<${Change} title="Edit and send" path="${to("topics", topic)}/records" body=${{}} isReady=${false} confirm="Send" onClose=${onClose}><p>The value is too large to be edited here. Send it with <code>chronik produce</code>.</p><//>`;
  return html`<${Change} title="Edit and send" path="${to("topics", topic)}/records" body=${body} confirm="Send" onClose=${onClose}>
    <label class="field tall"><span>Key${key?.kind === "hex" ? " (bytes; typing replaces them by text)" : ""}</span><input class="mono" value=${key === null ? "" : key.text} placeholder=${key === null ? "null" : ""} onInput=${change(setKey)} /></label>
    <label class="field tall"><span>Value${value?.kind === "hex" ? " (bytes; typing replaces them by text)" : ""}</span><textarea rows="12" value=${value === null ? "" : value.text} placeholder=${value === null ? "null" : ""} onInput=${change(setValue)}></textarea></label>
    ${value?.kind !== "hex" && html`<p class="muted">${problem(value?.text ?? "")}</p>`}<//>`;
}

/** @param {string} text */
function problem(text) {
  try {
    JSON.parse(text);
    return "Valid JSON.";
  } catch (why) {
    return `Not JSON: ${/** @type {Error} */ (why).message}`;
  }
}
