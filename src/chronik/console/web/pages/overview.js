// @ts-check
/** What needs attention, how much goes through the cluster, and what happened. */
import { html, useEffect, useRef } from "../lib.js";
import { useGet } from "../api.js";
import { Chart, Sparkline, timesOf } from "../chart.js";
import { ago, byteRate, bytes, count, counted, duration, rate, time, timeOfDay, zoneName } from "../format.js";
import { events, overview, ticks } from "../live.js";
import { Badge, Card, Figure, Loaded, Loading, Missing, Page } from "../parts.js";
import { to } from "../router.js";

const SERIES = ["messages_in_per_s", "bytes_in_per_s", "bytes_out_per_s", "produce_p99_ms", "lag_total", "under_replicated"];
const HOUR_MS = 3600e3;

export default function Overview() {
  const data = overview.value;
  return html`<${Page} title="Overview" note=${data?.cluster.cluster_id && html`Cluster <span class="mono">${data.cluster.cluster_id}</span>`} />
    ${!data ? html`<${Loading} />` : html`<${Quorum} cluster=${data.cluster} />
      ${data.missing?.length > 0 && data.cluster.verdict !== "unreachable" && html`<${Missing} parts=${data.missing} />`}
      <${Figures} data=${data} />
      <div class="split"><div>
        <${Attention} found=${data.attention} verdict=${data.cluster.verdict} />
        <${Traffic} />
        <${Machines} nodes=${data.nodes} /></div>
        <${Feed} />
      </div>`}`;
}

/** @param {{cluster: any}} props */
function Quorum({ cluster }) {
  if (cluster.verdict === "unreachable")
    return html`<div class="notice bad" role="alert"><div><strong>No broker answers.</strong>
      <p>Start the brokers, or look at where they were last heard: <a href="/nodes">Nodes</a>, <a href="/doctor">Doctor</a>.</p></div></div>`;
  if (cluster.has_quorum !== false && cluster.verdict !== "no-quorum") return null;
  return html`<div class="notice bad" role="alert"><div><strong>The quorum is lost: ${cluster.voters_answering} of ${counted(cluster.voters, "voter")} ${cluster.voters_answering === 1 ? "answers" : "answer"}, ${cluster.votes_needed} are needed.</strong>
    <p>${cluster.not_ready_because ?? ""}</p>
    <p>Nothing can be created, changed or elected until a majority is back. <a href="/nodes">Show the nodes</a></p></div></div>`;
}

/** @param {{data: any}} props */
function Figures({ data }) {
  const { cluster, rates } = data;
  const spare = cluster.nodes_answering === cluster.nodes;
  const ill = cluster.offline_partitions || cluster.under_min_isr;
  return html`<div class="figures">
    <${Figure} label="Nodes" href="/nodes" kind=${spare ? "" : "bad"} note=${cluster.controller_id == null ? "no controller" : `controller ${cluster.controller_id}, term ${count(cluster.term)}`}>${cluster.nodes_answering} / ${cluster.nodes}<//>
    <${Figure} label="Under-replicated" href="/nodes?view=isr&problems=1" kind=${ill ? "bad" : cluster.under_replicated ? "warn" : ""} note=${cluster.offline_partitions ? `${count(cluster.offline_partitions)} offline` : `of ${counted(cluster.partitions ?? 0, "partition")}`}>${count(cluster.under_replicated)}<//>
    <${Figure} label="Topics" href="/topics" note=${counted(cluster.partitions ?? 0, "partition")}>${count(cluster.topics)}<//>
    <${Figure} label="Records in" note=${byteRate(rates.bytes_in_per_s)}>${rate(rates.messages_in_per_s)}<//>
    <${Figure} label="Bytes out" note=${`${rate(rates.requests_per_s)} requests`}>${byteRate(rates.bytes_out_per_s)}<//>
    <${Figure} label="Produce p99" note=${`fetch ${duration(rates.fetch_p99_ms)}`}>${duration(rates.produce_p99_ms)}<//>
  </div>`;
}

/** @param {{found: any[], verdict: string}} props */
function Attention({ found, verdict }) {
  return html`<${Card} title=${html`Attention ${found.length > 0 && html`<${Badge} kind=${found[0].severity === "problem" ? "bad" : "warn"}>${found.length}<//>`}`}>
    ${found.length === 0 && html`<p class="calm">${verdict === "unreachable" ? "Nothing can be said while no broker answers." : html`<span class="good">✓</span> Nothing needs attention.`}</p>`}
    <ul class="attention">${found.map((each) => html`<li key=${each.id}>
      <span class="mark ${each.severity === "problem" ? "bad" : "warn"}" aria-label=${each.severity}>${each.severity === "problem" ? "▲" : "●"}</span>
      <div><a href=${each.link || "/doctor"}>${each.what}</a>
        <p class="muted">${each.cause}${each.since_ms != null && html` · <span title="${time(each.since_ms)} ${zoneName()}">since ${timeOfDay(each.since_ms)}, ${ago(each.since_ms)}</span>`}</p>
        ${each.command && html`<code class="muted">${each.command}</code>`}</div></li>`)}</ul><//>`;
}

/** The last hour of the series, with what has ticked since. @param {string[]} names */
function useHour(names) {
  const since = useRef(Date.now() - HOUR_MS);
  const answer = useGet("/metrics", { series: names, step: "2s", since_ms: since.current }, { everyMs: 60e3 });
  const more = useRef(/** @type {any[]} */ ([]));
  const tick = ticks.value;
  const data = answer.data;
  const last = data ? data.start_ms + ((data.series[names[0]]?.length ?? 0) - 1) * data.step_ms : 0;
  useEffect(() => {
    if (tick) more.current = [...more.current, tick].slice(-60);
  }, [tick]);
  const later = more.current.filter((each) => each.time_ms > last);
  const length = data?.series[names[0]]?.length ?? 0;
  // A console that has just been started shows five minutes instead of an hour that is almost empty.
  const first = Math.max(0, Math.min(length - 150, ...names.map((name) => (data?.series[name] ?? []).findIndex((each) => each != null)).filter((each) => each >= 0)));
  /** @param {string} name */
  const values = (name) => [...(data?.series[name] ?? []).slice(first), ...later.map((each) => each.values[name] ?? null)];
  const times = data ? [...timesOf(data, length).slice(first), ...later.map((each) => each.time_ms)] : [];
  return { answer, values, times };
}

function Traffic() {
  const { answer, values, times } = useHour(SERIES);
  return html`<${Card} title="Last hour"><${Loaded} of=${answer}>${() => html`
    <${Chart} label="Bytes in and out" times=${times} height=${190} series=${[
      { name: "Bytes in", values: values("bytes_in_per_s"), color: "chart-1", format: byteRate },
      { name: "Bytes out", values: values("bytes_out_per_s"), color: "chart-2", format: byteRate },
    ]} />
    <div class="sparks">
      <${Spark} name="Records in" format=${rate} values=${values("messages_in_per_s")} />
      <${Spark} name="Produce p99" format=${duration} values=${values("produce_p99_ms")} />
      <${Spark} name="Lag of all groups" format=${count} values=${values("lag_total")} />
      <${Spark} name="Under-replicated" format=${count} values=${values("under_replicated")} />
    </div>`}<//><//>`;
}

/** @param {{name: string, values: any[], format: (value: any) => string}} props */
function Spark({ name, values, format }) {
  const newest = values.findLast((each) => each != null);
  return html`<div><span class="muted">${name}</span> <b>${format(newest)}</b><${Sparkline} values=${values.slice(-900)} label="${name} in the last hour" /></div>`;
}

/** @param {{nodes: any[]}} props */
function Machines({ nodes }) {
  return html`<${Card} title="Nodes" actions=${html`<a href="/nodes">All about nodes</a>`}><div class="scrolls whole"><table class="plain"><thead><tr><th>Node</th><th>State</th><th class="number">Records in</th><th class="number wide">Bytes in</th><th class="number wide">Bytes out</th><th>Disk</th></tr></thead>
    <tbody>${nodes.map((each) => html`<tr key=${each.node_id}><td><a href=${to("nodes", each.node_id)}>${each.node_id}</a></td>
      <td><${NodeState} node=${each} /></td><td class="number">${rate(each.messages_in_per_s)}</td><td class="number wide">${byteRate(each.bytes_in_per_s)}</td><td class="number wide">${byteRate(each.bytes_out_per_s)}</td>
      <td><${Disk} free=${each.disk_free_bytes} total=${each.disk_total_bytes} /></td></tr>`)}</tbody></table></div><//>`;
}

/** @param {{node: any}} props */
export const NodeState = ({ node }) => html`<${Badge} kind=${!node.is_answering ? "bad" : node.is_fenced ? "warn" : "good"}>${!node.is_answering ? "no answer" : node.is_fenced ? "fenced" : "up"}<//>
  ${node.is_controller && html` <${Badge} kind="accent">controller<//>`}`;

/** @param {{free: number|null, total: number|null}} props */
export function Disk({ free, total }) {
  if (free == null || !total) return html`<span class="faint">–</span>`;
  const used = 1 - free / total;
  return html`<span class="disk" title="${bytes(total - free)} of ${bytes(total)} used"><meter min="0" max="1" high="0.92" low="0.8" optimum="0" value=${used}></meter> <span class="muted nowrap">${bytes(free)} free</span></span>`;
}

function Feed() {
  const found = events.value;
  return html`<${Card} title="Events" kind="feed">
    ${found.length === 0 && html`<p class="calm muted">Nothing has happened since the console started.</p>`}
    <ol>${found.slice(0, 60).map((each) => html`<li key=${each.id}>
      <time class="mono faint" title="${time(each.time_ms)} ${zoneName()}">${timeOfDay(each.time_ms)}</time>
      <a class=${each.severity === "problem" ? "bad" : ""} href=${each.link || "/"}>${each.text}</a></li>`)}</ol><//>`;
}
