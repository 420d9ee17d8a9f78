// @ts-check
/** SQL over topics and tables: what there is, an editor, the result as grid or chart, export and cancel. */
import { html, useEffect, useRef, useState } from "../lib.js";
import { post, send, useGet } from "../api.js";
import { Chart } from "../chart.js";
import { counted, duration } from "../format.js";
import { Badge, cell, Command, Failure, Loaded, Missing, Page } from "../parts.js";
import { parameter, setQuery } from "../router.js";
import { Rows } from "../table.js";
import { visible } from "../values.js";

const EXAMPLE = "SELECT * FROM topics.orders\nORDER BY _offset DESC\nLIMIT 100";

export default function Sql() {
  const [text, setText] = useState(parameter("q"));
  const [state, setState] = useState(/** @type {any} */ ({ id: "", result: null, error: null }));
  const editor = /** @type {{current: HTMLTextAreaElement|null}} */ (useRef(null));
  const run = async () => {
    const query = (editor.current?.value ?? text).trim();
    if (!query || state.id) return;
    const id = crypto.randomUUID();
    setQuery({ q: query }, true);
    setState({ id, result: null, error: null });
    try {
      const result = await post("/sql", { id, query, limit: 10000 });
      setState({ id: "", result, error: null });
    } catch (error) {
      setState({ id: "", result: null, error });
    }
  };
  const cancel = () => post(`/sql/${state.id}/cancel`, {}).catch(() => {});
  useEffect(() => {
    if (parameter("q")) run();
    else editor.current?.focus();
  }, []);
  const insert = (name) => {
    const area = editor.current;
    if (!area) return;
    area.setRangeText(name, area.selectionStart, area.selectionEnd, "end");
    setText(area.value);
    area.focus();
  };
  const key = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
  };
  return html`<${Page} title="SQL" note="One statement that reads, over topics and tables" />
    <div class="sql"><${Catalog} onPick=${insert} />
      <div><textarea ref=${editor} class="editor" rows="7" aria-label="SQL" spellcheck=${false} placeholder=${EXAMPLE} value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${key}></textarea>
        <div class="bar"><button class="primary" onClick=${run} disabled=${!text.trim() || state.id}>Run</button>
          ${state.id && html`<button onClick=${cancel}>Cancel</button><span class="loading"><span class="spinner"></span> Running …</span>`}
          <span class="muted wide"><kbd>Ctrl</kbd> <kbd>Enter</kbd></span><span class="grow"></span><${Export} query=${text} /></div>
        ${state.error && html`<${Failure} error=${state.error} />`}
        ${state.result && html`<${Result} data=${state.result} />`}
        ${!state.id && !state.error && !state.result && html`<div class="empty"><p>A topic's records are rows with <code>key</code>, <code>value</code>, <code>_partition</code>, <code>_offset</code> and <code>_timestamp</code>.</p><p>Fields of JSON: <code>value->>'$.city'</code></p></div>`}</div></div>`;
}

/** @param {{onPick: (name: string) => void}} props */
function Catalog({ onPick }) {
  const answer = useGet("/sql/catalog");
  const [text, setText] = useState("");
  const branch = (space, items) =>
    items.filter((each) => each.name.includes(text)).slice(0, 300).map((each) => html`<details key="${space}.${each.name}"><summary><span class="mono">${each.name}</span><button class="quiet" title="Put the name into the editor" aria-label="Insert ${each.name}"
      onClick=${(event) => (event.preventDefault(), onPick(`${space}.${/^[a-z_][a-z0-9_]*$/i.test(each.name) ? each.name : `"${each.name}"`}`))}>+</button></summary>
      <ul>${(each.columns ?? []).map((column) => html`<li><button class="link mono" onClick=${() => onPick(column.name)}>${column.name}</button> <span class="faint">${column.type}</span></li>`)}${each.columns == null && html`<li class="faint">not read yet</li>`}</ul></details>`);
  return html`<aside class="catalog" aria-label="Topics and tables"><input type="search" placeholder="Filter" aria-label="Filter topics and tables" value=${text} onInput=${(event) => setText(event.target.value)} />
    <${Loaded} of=${answer}>${(data) => html`<h3>topics</h3>${data.topics.length ? branch("topics", data.topics) : html`<p class="faint">none</p>`}<h3>tables</h3>${data.tables.length ? branch("tables", data.tables) : html`<p class="faint">none</p>`}`}<//></aside>`;
}

/** @param {{data: any}} props */
function Result({ data }) {
  const view = parameter("view");
  const numeric = data.columns.map((each) => /INT|DOUBLE|FLOAT|DECIMAL|REAL/.test(each.type));
  const columns = data.columns.map((each, index) => ({
    id: String(index),
    title: html`${each.name} <span class="faint">${each.type.toLowerCase()}</span>`,
    width: `${Math.max(110, Math.min(420, each.name.length * 8 + each.type.length * 7 + 40))}px`,
    kind: numeric[index] ? "number mono" : "mono",
    cell: (row) => (typeof row[index] === "string" ? html`<span title=${visible(row[index].slice(0, 2000))}>${visible(row[index].slice(0, 500))}</span>` : cell(row[index])),
  }));
  return html`${data.missing?.length > 0 && html`<${Missing} parts=${data.missing} />`}
    <div class="bar"><b>${counted(data.rows.length, "row")}</b><span class="muted">in ${duration(data.elapsed_ms)}</span>${data.is_truncated && html`<${Badge} kind="warn">cut: there are more<//>`}
      <span class="grow"></span><div class="segments" role="group" aria-label="View">${[["", "Grid"], ["chart", "Chart"]].map(([id, name]) => html`<button aria-pressed=${view === id} onClick=${() => setQuery({ view: id })}>${name}</button>`)}</div></div>
    ${data.rows.length === 0 ? html`<div class="empty">The query has no rows.</div>` : view === "chart" ? html`<${Drawn} data=${data} numeric=${numeric} />` : html`<div class="wide-rows"><${Rows} label="Result" columns=${columns} rows=${data.rows} /></div>`}
    <${Command} text=${data.command} />`;
}

/** The first column is the axis if it is a time or a number; the other numbers are lines. @param {{data: any, numeric: boolean[]}} props */
function Drawn({ data, numeric }) {
  const isTime = /TIMESTAMP|DATE/.test(data.columns[0].type);
  const xs = data.rows.map((row, index) => (isTime ? Date.parse(row[0]) : numeric[0] && data.columns.length > 1 ? Number(row[0]) : index));
  const order = [...xs.keys()].sort((a, b) => xs[a] - xs[b]);
  const from = isTime || (numeric[0] && data.columns.length > 1) ? 1 : 0;
  const series = data.columns.map((each, index) => ({ name: each.name, index })).filter((each) => each.index >= from && numeric[each.index]).slice(0, 4);
  if (!series.length) return html`<div class="empty">A chart needs a column of numbers.</div>`;
  return html`<div class="card"><${Chart} label="Result" isTime=${isTime} times=${order.map((at) => xs[at])} height=${280} series=${series.map((each, index) => ({ name: each.name, color: `chart-${index + 1}`, values: order.map((at) => (data.rows[at][each.index] == null ? null : Number(data.rows[at][each.index]))) }))} /></div>`;
}

/** @param {{query: string}} props */
function Export({ query }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [isBusy, setBusy] = useState(false);
  const save = async (event) => {
    const format = event.target.value;
    event.target.value = "";
    setBusy(true);
    setError(null);
    try {
      const answer = await send("/sql/export", { id: crypto.randomUUID(), query, format });
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await answer.blob());
      link.download = `result.${format}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10e3);
    } catch (why) {
      setError(why);
    }
    setBusy(false);
  };
  return html`<select aria-label="Export all rows" disabled=${!query.trim() || isBusy} onChange=${save}><option value="">${isBusy ? "Exporting …" : "Export all rows"}</option><option value="csv">as CSV</option><option value="json">as JSON</option><option value="parquet">as Parquet</option></select>${error && html`<${Failure} error=${error} />`}`;
}
