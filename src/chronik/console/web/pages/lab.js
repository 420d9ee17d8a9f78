// @ts-check
/** Plays a seed of the simulator: what the nodes of a cluster sent, suffered and promised over virtual time. */
import { html, useEffect, useState } from "../lib.js";
import { get, post, useGet } from "../api.js";
import { count, counted, duration } from "../format.js";
import { Badge, Card, Command, Failure, Loaded, Page } from "../parts.js";
import { go, parameter, place, setQuery, to } from "../router.js";
import { Rows } from "../table.js";
import { Lanes, seconds } from "./lanes.js";

const KINDS = /** @type {Record<string, string>} */ ({ passed: "good", failed: "bad", running: "accent", "timed-out": "warn" });

export default () => html`<${Page} title="Lab" note="Whole clusters in virtual time, with faults; nothing of it touches this cluster" trail=${place.value.parts[1] ? [["Lab", "/lab"]] : []} />
  <${Form} />${place.value.parts[1] ? html`<${Run} key=${place.value.parts[1]} id=${place.value.parts[1]} />` : html`<${Runs} />`}`;

function Form() {
  const answer = useGet("/lab/scenarios");
  const [error, setError] = useState(/** @type {any} */ (null));
  const scenario = parameter("scenario", "quorum");
  const [seed, setSeed] = useState(parameter("seed", "17"));
  const scenarios = answer.data?.scenarios ?? [];
  const chosen = scenarios.find((each) => each.name === scenario);
  const start = async (event) => {
    event.preventDefault();
    try {
      const fault = parameter("fault");
      const run = await post("/lab/runs", { scenario, seed: Number(seed), fault: fault || null });
      setError(null);
      go(`${to("lab", run.id)}?${new URLSearchParams({ scenario, seed, ...(fault && { fault }) })}`);
    } catch (why) {
      setError(why);
    }
  };
  return html`<form class="bar" onSubmit=${start}>
      <label class="field"><span>Scenario</span><select value=${scenario} onChange=${(event) => setQuery({ scenario: event.target.value, fault: null })}>${scenarios.map((each) => html`<option value=${each.name}>${each.name}</option>`)}</select></label>
      ${chosen?.faults.length > 0 && html`<label class="field"><span>Fault</span><select value=${parameter("fault")} onChange=${(event) => setQuery({ fault: event.target.value })}><option value="">as the seed says</option>${chosen.faults.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>`}
      <label class="field"><span>Seed</span><input type="number" min="0" value=${seed} onInput=${(event) => setSeed(event.target.value)} /></label>
      <button class="primary">Play</button><span class="muted grow">${chosen?.text}</span></form>
    ${(error ?? answer.error) && html`<${Failure} error=${error ?? answer.error} />`}`;
}

function Runs() {
  const answer = useGet("/lab/runs", {}, { everyMs: 3000 });
  const columns = [
    { id: "run", title: "Run", cell: (row) => html`<a class="mono" href=${to("lab", row.id)}>${row.scenario} ${row.seed}</a> ${row.fault && html`<${Badge}>${row.fault}<//>`}` },
    { id: "state", title: "State", width: "110px", cell: (row) => html`<${Badge} kind=${KINDS[row.state] ?? ""}>${row.state}<//>` },
    { id: "events", title: "Events", width: "110px", kind: "number", cell: (row) => count(row.events) },
    { id: "time", title: "Virtual time", width: "120px", kind: "number wide", cell: (row) => (row.end_us == null ? "–" : duration(row.end_us / 1000)) },
    { id: "took", title: "Took", width: "110px", kind: "number wide", cell: (row) => duration(row.elapsed_ms) },
  ];
  return html`<${Loaded} of=${answer} empty=${(data) => data.runs.length === 0 && html`<p>Choose a scenario and a seed. A seed gives the same run on every machine.</p>`}>
    ${(data) => html`<${Rows} label="Runs" columns=${columns} rows=${data.runs} href=${(row) => to("lab", row.id)} />`}<//>`;
}

const PAGE = 10000;

/** The trace, page by page as the run goes on. @param {string} id */
function useTrace(id) {
  const [events, setEvents] = useState(/** @type {any[]} */ ([]));
  const [error, setError] = useState(/** @type {any} */ (null));
  useEffect(() => {
    const abort = new AbortController();
    const read = async () => {
      let after = 0;
      /** @type {any[]} */
      let all = [];
      while (!abort.signal.aborted) {
        const page = await get(`${to("lab", "runs", id)}/trace`, { after, limit: PAGE }, abort.signal);
        if (page.events.length) {
          all = [...all, ...page.events];
          after = page.events[page.events.length - 1].n;
          setEvents(all);
        }
        if (page.next == null && page.state !== "running") return;
        if (!page.events.length || page.events.length < PAGE) await new Promise((resolve) => setTimeout(resolve, 500));
      }
    };
    read().catch((why) => abort.signal.aborted || setError(why));
    return () => abort.abort();
  }, [id]);
  return { events, error };
}

/** @param {{id: string}} props */
function Run({ id }) {
  const [isOver, setOver] = useState(false);
  const answer = useGet(to("lab", "runs", id), {}, { everyMs: isOver ? 0 : 1000 });
  const { events, error } = useTrace(id);
  const run = answer.data;
  useEffect(() => setOver(run != null && run.state !== "running"), [run?.state]);
  return html`${error && html`<${Failure} error=${error} />`}<${Loaded} of=${answer}>${() => html`
    <div class="bar"><h2 class="mono">${run.scenario} ${run.seed}</h2><${Badge} kind=${KINDS[run.state] ?? ""}>${run.state}<//><span class="muted">${counted(run.events, "event")} in ${run.end_us == null ? "–" : duration(run.end_us / 1000)} of virtual time, played in ${duration(run.elapsed_ms)}${run.is_truncated ? "; the trace was cut" : ""}</span>
      ${run.state === "running" && html`<button onClick=${() => post(`${to("lab", "runs", id)}/cancel`, {})}>Cancel</button>`}</div>
    ${run.failure && html`<div class="notice bad" role="alert"><div><strong>${run.failure.invariant ? `Invariant ${run.failure.invariant} broke` : "The run failed"}${run.failure.time_us != null && ` at ${seconds(run.failure.time_us)}`}, step ${count(run.failure.n)}</strong><pre class="hint">${run.failure.text}</pre></div>
      <button onClick=${() => setQuery({ t: run.failure.time_us, n: run.failure.n })}>Go there</button></div>`}
    ${events.length > 0 && html`<${Player} run=${run} events=${events} />`}
    <${Command} text=${run.command} />
    ${run.test && html`<${Card} title="As a test" actions=${html`<button onClick=${() => navigator.clipboard.writeText(run.test)}>Copy</button>`}><pre class="value-box">${run.test}</pre><//>`}`}<//>`;
}

/** @param {{run: any, events: any[]}} props */
function Player({ run, events }) {
  const end = run.end_us ?? events[events.length - 1].time_us;
  const at = Number(parameter("t", String(run.failure?.time_us ?? Math.min(end, 2e6))));
  const span = Number(parameter("span", String(Math.max(200e3, Math.round(end / 40)))));
  const kind = parameter("kind");
  const [isPlaying, setPlaying] = useState(false);
  useEffect(() => {
    if (!isPlaying) return;
    const timer = setInterval(() => {
      const now = Number(parameter("t", "0"));
      if (now >= end) setPlaying(false);
      else setQuery({ t: Math.min(end, Math.round(now + span / 60)) });
    }, 50);
    return () => clearInterval(timer);
  }, [isPlaying, span, end]);
  const move = (time) => setQuery({ t: Math.round(Math.max(0, Math.min(end, time))) });
  const [from, until] = [at - span / 2, at + span / 2];
  const near = events.filter((each) => each.time_us <= until && (each.arrives_us ?? each.time_us) >= from);
  const step = isPlaying ? "" : parameter("n");
  const listed = kind ? near.filter((each) => each.kind === kind) : near;
  return html`<${Card} title="Lanes" actions=${html`<button onClick=${() => setPlaying(!isPlaying)}>${isPlaying ? "Pause" : "▶ Play"}</button>
      <button class="icon" aria-label="Earlier" onClick=${() => move(at - span / 4)}>‹</button><button class="icon" aria-label="Later" onClick=${() => move(at + span / 4)}>›</button>
      <button class="icon" aria-label="Closer" onClick=${() => setQuery({ span: Math.max(2000, Math.round(span / 2)) })}>+</button><button class="icon" aria-label="Further" onClick=${() => setQuery({ span: Math.min(end, span * 2) })}>−</button>`}>
      <input class="scrub" type="range" min="0" max=${end} step="1000" value=${at} aria-label="Virtual time" onInput=${(event) => move(event.target.valueAsNumber)} />
      <${Lanes} run=${run} events=${events} near=${near} at=${at} span=${span} end=${end} onMove=${move} /><//>
    <div class="bar"><b>${counted(listed.length, "event")}</b><span class="muted">from ${seconds(from)} to ${seconds(until)}</span><span class="grow"></span><label class="field"><span>Show</span><select value=${kind} onChange=${(event) => setQuery({ kind: event.target.value })}><option value="">all</option>${Object.keys(run.counts ?? {}).map((each) => html`<option value=${each}>${each}</option>`)}</select></label></div>
    <${Rows} label="Events" rows=${listed} wanted=${step ? { key: step, index: listed.findIndex((row) => String(row.n) === step) } : undefined} active=${(row) => row.n === run.failure?.n || String(row.n) === parameter("n")} onOpen=${(row) => setQuery({ t: row.time_us, n: row.n })} columns=${[
      { id: "n", title: "Step", width: "90px", kind: "number", cell: (row) => count(row.n) },
      { id: "time", title: "Time", width: "110px", kind: "number mono", cell: (row) => seconds(row.time_us) },
      { id: "kind", title: "Kind", width: "100px", cell: (row) => html`<${Badge} kind=${row.kind === "invariant" ? "bad" : row.kind === "fault" ? "warn" : ""}>${row.kind}<//>` },
      { id: "lane", title: "Lane", width: "190px", kind: "mono wide", cell: (row) => `${row.lane}${row.to ? ` → ${row.to}${row.arrives_us == null ? " (lost)" : ""}` : ""}` },
      { id: "text", title: "What", kind: "mono", cell: (row) => row.text },
    ]} />`;
}
