// @ts-check
/** Pipelines on Spark: the graph of flows, how far each one is, what its batches did, and the versions of its tables. */
import { html } from "../lib.js";
import { useGet } from "../api.js";
import { ago, count, counted, duration, time } from "../format.js";
import { Badge, Card, Loaded, Page } from "../parts.js";
import { parameter, place, setQuery, to } from "../router.js";
import { Rows } from "../table.js";
import { arranged } from "../layers.js";

const KINDS = /** @type {Record<string, string>} */ ({ running: "good", failed: "bad", silent: "warn", stopped: "" });

export default () => (place.value.parts[1] ? html`<${Pipeline} key=${place.value.parts[1]} name=${place.value.parts[1]} />` : html`<${All} />`);

function All() {
  const answer = useGet("/pipelines", {}, { everyMs: 5000 });
  const columns = [
    { id: "name", title: "Pipeline", cell: (row) => html`<a class="mono" href=${to("pipelines", row.pipeline)}>${row.pipeline}</a>` },
    { id: "state", title: "State", width: "110px", cell: (row) => html`<${Badge} kind=${KINDS[row.state] ?? ""}>${row.state}<//>` },
    { id: "flows", title: "Flows", width: "80px", kind: "number", cell: (row) => count(row.flows) },
    { id: "lag", title: "Lag", width: "110px", kind: "number", cell: (row) => count(row.lag_messages) },
    { id: "dead", title: "Letters", width: "110px", kind: "number wide", cell: (row) => count(row.rows_dead) },
    { id: "last", title: "Last event", width: "140px", kind: "wide", cell: (row) => ago(row.last_event_ms) },
  ];
  return html`<${Page} title="Pipelines" />
    <${Loaded} of=${answer} empty=${(data) => data.pipelines.length === 0 && html`<p>No pipeline has run in this cluster.</p><p>Begin with <code>chronik pipeline init</code></p>`}>
      ${(data) => html`<${Rows} label="Pipelines" columns=${columns} rows=${data.pipelines} href=${(row) => to("pipelines", row.pipeline)} />`}<//>`;
}

/** @param {{name: string}} props */
function Pipeline({ name }) {
  const answer = useGet(to("pipelines", name), {}, { everyMs: 3000 });
  const flow = parameter("flow");
  const data = answer.data;
  return html`<${Page} title=${name} trail=${[["Pipelines", "/pipelines"]]} note=${data && html`<${Badge} kind=${KINDS[data.state] ?? ""}>${data.state}<//> ${Object.entries(data.versions ?? {}).map(([what, version]) => `${what} ${version}`).join(" · ")}`} />
    <${Loaded} of=${answer}>${() => html`
      <${Card} title="Flows"><${Graph} graph=${data.graph} flows=${data.flows} chosen=${flow} /><//>
      <${Flows} flows=${data.flows} chosen=${flow} />`}<//>
    <${Batches} name=${name} flow=${flow} />
    ${data && html`<${Versions} table=${data.flows.find((each) => each.flow === flow && each.writes_to === "table")?.writes} />`}`;
}

const [BOX, TALL, GAP_X, GAP_Y] = [176, 46, 56, 18];

/** @param {{graph: any, flows: any[], chosen: string}} props */
function Graph({ graph, flows, chosen }) {
  if (!graph?.nodes.length) return html`<p class="calm muted">The pipeline has reported no flow yet.</p>`;
  const { at, width, height } = arranged(graph.nodes, graph.edges, BOX, TALL, GAP_X, GAP_Y);
  const state = new Map(flows.map((each) => [each.flow, each]));
  return html`<div class="scrolls whole"><svg class="graph" width=${width} height=${height} viewBox="0 0 ${width} ${height}" role="group" aria-label="Graph of flows">
    ${graph.edges.map((edge) => {
      const [a, b] = [at.get(edge.from), at.get(edge.to)];
      if (!a || !b) return null;
      const [x1, y1, x2, y2] = [a.x + BOX, a.y + TALL / 2, b.x, b.y + TALL / 2];
      const bend = Math.max(24, Math.abs(x2 - x1) / 2);
      return html`<path d="M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}" />`;
    })}
    ${graph.nodes.map((node) => {
      const { x, y } = /** @type {any} */ (at.get(node.id));
      const flow = node.kind === "flow" ? state.get(node.name) : null;
      const link = node.kind === "flow" ? `${place.value.path}?flow=${encodeURIComponent(node.name)}` : node.kind === "topic" ? to("topics", node.name) : `/sql?q=${encodeURIComponent(`SELECT * FROM tables."${node.name}" LIMIT 100`)}`;
      const note = flow ? (flow.error ? "failed" : `${count(flow.lag_messages)} behind${flow.rows_dead ? `, ${count(flow.rows_dead)} letters` : ""}`) : node.kind;
      return html`<a href=${link}><g class="${node.kind} ${flow ? (KINDS[flow.state] ?? "") : ""} ${chosen === node.name && flow ? "chosen" : ""}" transform="translate(${x} ${y})"><rect width=${BOX} height=${TALL} rx=${node.kind === "flow" ? 8 : 3} />
        <text x="12" y="20">${node.name.length > 22 ? `${node.name.slice(0, 21)}…` : node.name}</text><text class="small" x="12" y="36">${note}</text></g><title>${node.kind} ${node.name}</title></a>`;
    })}</svg></div>`;
}

/** @param {{flows: any[], chosen: string}} props */
const Flows = ({ flows, chosen }) => html`<${Card} title="State" kind="flush"><div class="scrolls whole"><table class="plain"><thead><tr><th>Flow</th><th>State</th><th class="number">In</th><th class="number">Out</th><th class="number">Letters</th><th class="number">Dropped</th><th class="number">Lag</th><th class="number">Batch</th><th>Last</th><th>Expectations not met</th></tr></thead><tbody>
  ${flows.map((each) => html`<tr class=${each.flow === chosen ? "active" : ""}><td><button class="link mono" onClick=${() => setQuery({ flow: each.flow === chosen ? null : each.flow })}>${each.flow}</button></td><td><${Badge} kind=${KINDS[each.state] ?? ""}>${each.state}<//></td><td class="number">${count(each.rows_in)}</td><td class="number">${count(each.rows_out)}</td>
    <td class="number">${each.rows_dead ? html`<a href="/letters">${count(each.rows_dead)}</a>` : "0"}</td><td class="number">${count(each.rows_dropped)}</td><td class="number">${count(each.lag_messages)}${each.lag_ms ? `, ${duration(each.lag_ms)}` : ""}</td><td class="number">${duration(each.duration_ms)}</td><td class="nowrap">${ago(each.last_batch_ms)}</td>
    <td>${each.error && html`<span class="bad">${each.error}</span>`}${Object.entries(each.failed ?? {}).map(([what, times]) => html`<${Badge} kind="warn">${what}: ${count(/** @type {number} */ (times))}<//> `)}</td></tr>`)}</tbody></table></div><//>`;

/** @param {{name: string, flow: string}} props */
function Batches({ name, flow }) {
  const answer = useGet(`${to("pipelines", name)}/batches`, { flow, limit: 500 }, { everyMs: 5000 });
  const columns = [
    { id: "time", title: "Time", width: "210px", kind: "mono", cell: (row) => time(row.time_ms) },
    { id: "flow", title: "Flow", kind: "mono", cell: (row) => row.flow },
    { id: "batch", title: "Batch", width: "90px", kind: "number wide", cell: (row) => (row.batch_id == null ? html`<${Badge}>${row.kind}<//>` : count(row.batch_id)) },
    { id: "in", title: "In", width: "90px", kind: "number", cell: (row) => count(row.rows_in) },
    { id: "out", title: "Out", width: "90px", kind: "number", cell: (row) => count(row.rows_out) },
    { id: "dead", title: "Letters", width: "90px", kind: "number", cell: (row) => (row.rows_dead ? html`<b class="bad">${count(row.rows_dead)}</b>` : count(row.rows_dead)) },
    { id: "took", title: "Took", width: "90px", kind: "number wide", cell: (row) => duration(row.duration_ms) },
    { id: "version", title: "Version", width: "90px", kind: "number wide", cell: (row) => count(row.table_version) },
  ];
  return html`<h3>Batches${flow && html` of <span class="mono">${flow}</span>`}</h3><${Loaded} of=${answer} empty=${(data) => data.batches.length === 0 && "No batch is in the events that are kept."}>
    ${(data) => html`<${Rows} label="Batches" columns=${columns} rows=${data.batches} />`}<//>`;
}

/** @param {{table: string|undefined}} props */
function Versions({ table }) {
  const answer = useGet(table ? `${to("tables", table)}/versions` : null);
  if (!table) return null;
  return html`<h3>Versions of <span class="mono">${table}</span></h3><${Loaded} of=${answer} empty=${(data) => data.versions.length === 0 && "The table has no version yet."}>
    ${(data) => html`<div class="card"><p class="muted">${counted(data.versions.length, "version")}, the newest first</p><table class="plain"><thead><tr><th class="number">Version</th><th>Time</th><th>Operation</th><th class="number">Rows added</th><th class="number">Removed</th></tr></thead><tbody>${data.versions.map((each) => html`<tr><td class="number">${each.version}</td><td class="mono">${time(each.time_ms)}</td><td>${each.operation}</td><td class="number">${count(each.rows_added)}</td><td class="number">${count(each.rows_removed)}</td></tr>`)}</tbody></table></div>`}<//>`;
}
