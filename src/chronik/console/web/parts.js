// @ts-check
/** What pages are made of: headings, states, badges, figures, tabs, commands, dialogs. */
import { html, useEffect, useRef, useState } from "./lib.js";
import { ago, count, time, zoneName } from "./format.js";
import { place, setQuery } from "./router.js";
import { post } from "./api.js";
import { session } from "./live.js";

/** @param {{title: any, note?: any, children?: any, trail?: [string, string][]}} props */
export function Page({ title, note, children, trail = [] }) {
  const name = typeof title === "string" ? title : "";
  useEffect(() => {
    document.title = name ? `${name} · Chronik` : "Chronik";
  }, [name]);
  return html`<header class="page-head">
    <div>
      ${trail.length > 0 && html`<nav class="trail" aria-label="Breadcrumb">${trail.map(([text, href]) => html`<a href=${href}>${text}</a>`)}</nav>`}
      <h1>${title}</h1>
      ${note && html`<p class="muted">${note}</p>`}
    </div>
    <div class="actions">${children}</div>
  </header>`;
}

/** The states of an answer: loading, failed, partial, empty, there.
 * @param {{of: import("./api.js").Answer, empty?: (data: any) => any, children: any}} props */
export function Loaded({ of, empty, children }) {
  const { data, error } = of;
  const isIncomplete = data?.missing?.length > 0;
  const nothing = data && empty?.(data) && (isIncomplete ? "Nothing is known while parts are missing." : empty(data));
  return html`${error && html`<${Failure} error=${error} again=${of.reload} since=${data ? of.atMs : 0} />`}
    ${isIncomplete && html`<${Missing} parts=${data.missing} />`}
    ${!data && !error && html`<${Loading} />`}
    ${nothing && html`<div class="empty">${nothing}</div>`}
    ${data && !nothing && children(data)}`;
}

export const Loading = () => html`<div class="loading" role="status"><span class="spinner"></span> Loading …</div>`;

/** @param {{error: any, again?: () => void, since?: number}} props */
export function Failure({ error, again, since = 0 }) {
  return html`<div class="notice bad" role="alert">
    <div>
      <strong>${error.message}</strong>
      ${error.hint && html`<pre class="hint">${error.hint}</pre>`}
      ${since > 0 && html`<p>What you see is from ${ago(since)}.</p>`}
    </div>
    ${again && html`<button onClick=${again}>Try again</button>`}
  </div>`;
}

/** @param {{parts: {part: string, reason: string}[]}} props */
export function Missing({ parts }) {
  const [isOpen, setOpen] = useState(false);
  const names = /** @type {Map<string, string[]>} */ (new Map());
  for (const { part, reason } of parts) names.set(reason, [...(names.get(reason) ?? []), part]);
  const reasons = [...names];
  const shown = isOpen ? reasons : reasons.slice(0, 3);
  return html`<div class="notice warn" role="status">
    <div>
      <strong>This page is incomplete.</strong>
      <ul>${shown.map(([reason, of]) => html`<li>${of.join(", ")}: ${reason}</li>`)}</ul>
      ${reasons.length > 3 && html`<button class="link" onClick=${() => setOpen(!isOpen)}>${isOpen ? "Fewer" : `${reasons.length - 3} more`}</button>`}
    </div>
  </div>`;
}

/** @param {{kind?: string, children: any, title?: string}} props */
export const Badge = ({ kind = "", children, title }) => html`<span class="badge ${kind}" title=${title}>${children}</span>`;

/** @param {{label: string, children: any, note?: any, kind?: string, href?: string}} props */
export function Figure({ label, children, note, kind = "", href }) {
  const inner = html`<span class="label">${label}</span><span class="value ${kind}">${children}</span>
    ${note != null && html`<span class="note">${note}</span>`}`;
  return href ? html`<a class="figure" href=${href}>${inner}</a>` : html`<div class="figure">${inner}</div>`;
}

/** @param {{title?: any, children: any, actions?: any, kind?: string}} props */
export const Card = ({ title, children, actions, kind = "" }) => html`<section class="card ${kind}">
  ${(title || actions) && html`<header><h2>${title}</h2><div class="actions">${actions}</div></header>`}${children}
</section>`;

/** @param {{ms: number|null|undefined}} props */
export const Time = ({ ms }) =>
  html`<time title=${ms == null ? "" : `${time(ms)} ${zoneName(ms)}`}><span class="mono">${time(ms)}</span>${ms != null && html` <span class="muted">${ago(ms)}</span>`}</time>`;

/** Tabs whose choice is in the address. @param {{tabs: [string, string][], base: string, active: string}} props */
export const Tabs = ({ tabs, base, active }) => html`<nav class="tabs" aria-label="Views">
  ${tabs.map(([id, text]) => html`<a href=${id ? `${base}/${id}` : base} aria-current=${id === active ? "page" : undefined}>${text}</a>`)}
</nav>`;

/** Text whose commands are set in backticks. @param {{text: string}} props */
export const Prose = ({ text }) => html`${(text ?? "").split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part))}`;

/** The command line that does the same. @param {{text?: string}} props */
export function Command({ text }) {
  const [isCopied, setCopied] = useState(false);
  if (!text) return null;
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`<div class="command"><code>${text}</code>
    <button class="quiet" onClick=${copy} aria-label="Copy the command">${isCopied ? "Copied" : "Copy"}</button></div>`;
}

/** A field whose text is a parameter of the address. @param {{name: string, label: string, placeholder?: string, isMain?: boolean}} props */
export function Search({ name, label, placeholder, isMain = false }) {
  const value = place.value.query.get(name) ?? "";
  const timer = useRef(0);
  const input = /** @param {any} event */ (event) => {
    const text = event.target.value;
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setQuery({ [name]: text }), 200);
  };
  return html`<input type="search" aria-label=${label} placeholder=${placeholder ?? label} value=${value} onInput=${input} data-filter=${isMain} />`;
}

/** @param {{name: string, label: string, options: [string, string][], otherwise?: string}} props */
export const Choice = ({ name, label, options, otherwise = "" }) => html`<label class="field"><span>${label}</span>
  <select value=${place.value.query.get(name) ?? otherwise} onChange=${(event) => setQuery({ [name]: event.target.value === otherwise ? null : event.target.value })}>
    ${options.map(([value, text]) => html`<option value=${value}>${text}</option>`)}
  </select></label>`;

/** @param {{title: string, onClose: () => void, children: any, isWide?: boolean}} props */
export function Dialog({ title, onClose, children, isWide = false }) {
  const element = /** @type {{current: HTMLDialogElement|null}} */ (useRef(null));
  useEffect(() => {
    element.current?.showModal();
  }, []);
  return html`<dialog ref=${element} class=${isWide ? "wide" : ""} onClose=${onClose} aria-label=${title}>
    <header><h2>${title}</h2><button class="quiet" aria-label="Close" onClick=${onClose}>✕</button></header>
    <div class="body">${children}</div>
  </dialog>`;
}

/**
 * A change: shows what would happen and the command that does the same, and does it when confirmed.
 * @param {{title: string, path: string, body: any, confirm: string, isDangerous?: boolean, word?: string, isReady?: boolean,
 *   onClose: () => void, onDone?: (answer: any) => void, children?: any}} props
 */
export function Change({ title, path, body, confirm, isDangerous, word = "", isReady = true, onClose, onDone, children }) {
  const [state, setState] = useState(/** @type {any} */ ({ plan: null, error: null, isBusy: false, done: null }));
  const [typed, setTyped] = useState("");
  const text = JSON.stringify(body);
  useEffect(() => {
    if (!isReady) return;
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const plan = await post(path, { ...body, dry_run: true }, abort.signal);
        setState((was) => ({ ...was, plan, error: null }));
      } catch (error) {
        if (!abort.signal.aborted) setState((was) => ({ ...was, plan: null, error }));
      }
    }, 250);
    return () => (clearTimeout(timer), abort.abort());
  }, [path, text, isReady]);
  const act = async () => {
    setState({ ...state, isBusy: true, error: null });
    try {
      const done = await post(path, body);
      setState({ ...state, isBusy: false, done });
      onDone?.(done);
    } catch (error) {
      setState({ ...state, isBusy: false, error });
    }
  };
  const mayChange = session.value?.allows_changes;
  const { plan, error, isBusy, done } = state;
  return html`<${Dialog} title=${title} onClose=${onClose} isWide=${true}>
    ${!done && children}
    ${error && html`<${Failure} error=${error} />`}
    ${done && html`<div class="notice good" role="status"><strong>Done.</strong></div>`}
    <${Plan} rows=${(done ?? plan)?.plan ?? []} />
    ${(done ?? plan)?.command && html`<p class="muted">The same on the command line:</p><${Command} text=${(done ?? plan).command} />`}
    ${!done && word && mayChange && html`<label class="field tall"><span>Type <b class="mono">${word}</b> to confirm</span>
      <input value=${typed} onInput=${(event) => setTyped(event.target.value)} /></label>`}
    <footer>
      ${!mayChange && html`<span class="muted">This console only reads. Start it with <code>--allow-changes</code> to change the cluster.</span>`}
      <button onClick=${onClose}>${done ? "Close" : "Cancel"}</button>
      ${!done && html`<button class=${isDangerous ? "danger" : "primary"} disabled=${!mayChange || isBusy || !isReady || !plan || (word && typed !== word)} onClick=${act}>${isBusy ? "Working …" : confirm}</button>`}
    </footer>
  <//>`;
}

const PLAN_ROWS_MAX = 200;

/** @param {{rows: any[]}} props */
function Plan({ rows }) {
  if (!rows.length) return null;
  const names = Object.keys(rows[0]);
  return html`<div class="scrolls"><table class="plain"><thead><tr>${names.map((name) => html`<th>${name.replace(/_/g, " ")}</th>`)}</tr></thead>
    <tbody>${rows.slice(0, PLAN_ROWS_MAX).map((row) => html`<tr>${names.map((name) => html`<td class="mono">${cell(row[name])}</td>`)}</tr>`)}</tbody></table>
    ${rows.length > PLAN_ROWS_MAX && html`<p class="muted">${count(rows.length - PLAN_ROWS_MAX)} more</p>`}</div>`;
}

/** @param {any} value */
export const cell = (value) =>
  value == null ? html`<span class="faint">null</span>` : Array.isArray(value) ? value.join(", ") : typeof value === "object" ? JSON.stringify(value) : String(value);
