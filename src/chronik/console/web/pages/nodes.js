// @ts-check
/** The quorum and its nodes: terms, leases, how far each one is, which replicas are in sync, and moves. */
import { html, useState } from "../lib.js";
import { useGet } from "../api.js";
import { ago, bytes, count, counted, duration, time, timeOfDay } from "../format.js";
import { Badge, Card, Change, Choice, Figure, Loaded, Page, Search } from "../parts.js";
import { parameter, place, to } from "../router.js";
import { Disk, NodeState } from "./overview.js";

export default function Nodes() {
  const answer = useGet("/nodes", {}, { everyMs: 2000 });
  const id = place.value.parts[1];
  const [dialog, setDialog] = useState("");
  const view = parameter("view");
  return html`<${Page} title=${id ? `Node ${id}` : "Nodes"} trail=${id ? [["Nodes", "/nodes"]] : []} note=${answer.data && !id && summary(answer.data)}>
      ${!id && html`<button onClick=${() => setDialog("leaders")}>Rebalance leaders</button><button onClick=${() => setDialog("replicas")}>Rebalance replicas</button>`}<//>
    ${!id && html`<nav class="tabs" aria-label="Views">${[["", "Quorum"], ["isr", "In-sync replicas"], ["moves", "Moves"]].map(([name, text]) => html`<a href=${name ? `/nodes?view=${name}` : "/nodes"} aria-current=${view === name ? "page" : undefined}>${text}</a>`)}</nav>`}
    ${id ? html`<${Loaded} of=${answer}>${(data) => html`<${Node} node=${data.nodes.find((each) => String(each.node_id) === id)} id=${id} />`}<//>`
      : view === "isr" ? html`<${Matrix} />` : view === "moves" ? html`<${Moves} />`
      : html`<${Loaded} of=${answer}>${(data) => html`<${Quorum} data=${data} />`}<//>`}
    ${dialog && html`<${Change} title=${dialog === "leaders" ? "Rebalance leaders" : "Rebalance replicas"} path="/nodes/rebalance" body=${{ only_leaders: dialog === "leaders" }} confirm="Rebalance" onClose=${() => setDialog("")}>
      <p>${dialog === "leaders" ? "Each partition is led by the first of its replicas again." : "Moves replicas so that brokers hold equally many. Moves copy data; they are shown under Moves."}</p><//>`}`;
}

/** @param {any} data */
function summary({ quorum, nodes }) {
  const up = nodes.filter((each) => each.is_answering).length;
  return `${up} of ${counted(nodes.length, "node")} answer · ${quorum.leader_id == null ? "no controller" : `controller ${quorum.leader_id}`} · term ${count(quorum.term)} · ${quorum.votes_needed} of ${counted(quorum.voters.length, "vote")} needed`;
}

/** @param {{data: any}} props */
function Quorum({ data }) {
  const { quorum, nodes } = data;
  const reason = nodes.find((each) => each.not_ready_because)?.not_ready_because;
  return html`${quorum.has_quorum === false && html`<div class="notice bad" role="alert"><div><strong>The quorum is lost.</strong> <p>${reason ? `${reason}. ` : ""}${quorum.votes_needed} of ${counted(quorum.voters.length, "voter")} are needed; ${nodes.filter((each) => each.is_voter && each.is_answering).length} answer. Start the others: <a href="/doctor">Doctor</a>.</p></div></div>`}
    ${quorum.states_agree === false && html`<div class="notice bad" role="alert"><div><strong>The states of nodes differ at the same version.</strong> <p>Save a report with <code>chronik doctor --bundle report.tar.gz</code> before anything is restarted.</p></div></div>`}
    <div class="quorum"><${Card} title="Quorum"><${Ring} quorum=${quorum} nodes=${nodes} /><//>
      <div class="cards">${nodes.map((each) => html`<${NodeCard} key=${each.node_id} node=${each} agree=${quorum.states_agree} />`)}</div></div>
    <${Card} title="Log of the quorum" kind="flush"><div class="scrolls whole"><table class="plain"><thead><tr><th>Node</th><th>Role</th><th class="number">Term</th><th class="number">End</th><th class="number">Committed</th><th class="number">Applied</th><th class="number">Behind</th><th>Heard</th><th>State hash</th><th class="number">Clock</th></tr></thead>
      <tbody>${nodes.map((each) => html`<tr key=${each.node_id}><td><a href=${to("nodes", each.node_id)}>${each.node_id}</a></td><td>${each.role ?? "–"}</td><td class="number">${count(each.term)}</td><td class="number">${count(each.end_offset)}</td><td class="number">${count(each.commit_index)}</td><td class="number">${count(each.applied_index)}</td>
        <td class="number">${each.lag_entries ? `${counted(each.lag_entries, "entry", "entries")}, ` : ""}${duration(each.lag_ms)}</td><td>${each.heard_ms == null ? "–" : each.heard_ms > 1e12 ? ago(each.heard_ms) : `${duration(each.heard_ms)} ago`}</td><td class="mono" title=${each.state_hash}>${each.state_hash?.slice(0, 8) ?? "–"} <span class="faint">${each.state_version != null && `@ ${count(each.state_version)}`}</span></td><td class="number">${each.clock_ahead_ms == null ? "–" : `${each.clock_ahead_ms > 0 ? "+" : ""}${Math.round(each.clock_ahead_ms)} ms`}</td></tr>`)}</tbody></table></div><//>`;
}

const RING = 280;

/** @param {{quorum: any, nodes: any[]}} props */
function Ring({ quorum, nodes }) {
  const members = nodes.filter((each) => each.is_voter || quorum.learners.includes(each.node_id));
  const placed = members.map((each, index) => {
    const angle = (index / members.length) * 2 * Math.PI - Math.PI / 2;
    return { ...each, x: RING / 2 + Math.cos(angle) * (members.length > 1 ? 92 : 0), y: RING / 2 + Math.sin(angle) * (members.length > 1 ? 92 : 0) };
  });
  const leader = placed.find((each) => each.node_id === quorum.leader_id);
  const spoken = placed.map((each) => `node ${each.node_id}: ${each.is_answering ? (each.role ?? "unknown") : "no answer"}`).join(", ");
  return html`<svg class="ring" viewBox="0 0 ${RING} ${RING}" role="img" aria-label="The quorum: ${spoken}">
    <circle class="orbit" cx=${RING / 2} cy=${RING / 2} r="92" />
    ${leader && placed.filter((each) => each !== leader).map((each) => html`<g class=${each.is_answering ? "" : "down"}><line x1=${leader.x} y1=${leader.y} x2=${each.x} y2=${each.y} />
      <text class="small" x=${(leader.x + each.x) / 2} y=${(leader.y + each.y) / 2}>${each.is_answering ? duration(each.lag_ms) : "✕"}</text></g>`)}
    ${placed.map((each) => html`<a href=${to("nodes", each.node_id)}><g class="member ${each.is_answering ? (each === leader ? "leads" : "") : "down"}"><circle cx=${each.x} cy=${each.y} r="31" />
      <text x=${each.x} y=${each.y - 2}>${each.node_id}</text><text class="small" x=${each.x} y=${each.y + 13}>${each.is_answering ? (each.is_voter ? (each.role ?? "") : "learner") : "silent"}</text></g></a>`)}
    <text class="middle" x=${RING / 2} y=${RING / 2 - (leader ? -2 : 4)}>${leader ? "" : quorum.has_quorum === false ? "no quorum" : ""}</text></svg>
    <p class="muted centered">Term ${count(quorum.term)} · committed up to ${count(quorum.high_watermark)} · states ${quorum.states_agree == null ? "not compared" : quorum.states_agree ? html`<span class="good">agree</span>` : html`<span class="bad">differ</span>`}</p>`;
}

/** @param {{node: any, agree: boolean|null}} props */
function NodeCard({ node }) {
  const machine = node.machine;
  return html`<${Card} title=${html`<a href=${to("nodes", node.node_id)}>Node ${node.node_id}</a> <${NodeState} node=${node} />`}>
    <p class="mono muted">${node.host}:${node.port}${node.rack && ` · ${node.rack}`}</p>
    ${node.not_ready_because && html`<p class="bad">${node.not_ready_because}</p>`}
    ${node.alarms?.map((each) => html`<p class="bad">▲ ${each.text} <span class="muted">since ${timeOfDay(each.since_ms)}</span></p>`)}
    <dl class="pairs tight"><dt>Partitions</dt><dd>${count(node.partitions_held)}, leads ${count(node.partitions_led)}</dd>
      <dt>Reads</dt><dd>${node.reads_by_lease == null ? "–" : node.reads_by_lease ? html`<span title="Reads need no round of the quorum while the lease holds">by lease</span>` : "by a round of the quorum"}</dd>
      <dt>Disk</dt><dd>${machine ? `${bytes(machine.disk_free_bytes)} free` : "–"}</dd><dt>Sync p99</dt><dd>${duration(machine?.sync_p99_ms)}</dd><dt>Requests</dt><dd>${machine ? `${bytes(machine.memory_held_bytes)} held` : "–"}</dd>
      <dt>Connections</dt><dd>${count(machine?.connections)}</dd></dl><//>`;
}

/** @param {{node: any, id: string}} props */
function Node({ node, id }) {
  if (!node) return html`<div class="empty">No node ${id} is known. <a href="/nodes">Show the nodes</a></div>`;
  const { machine, storage } = node;
  return html`<div class="bar"><${NodeState} node=${node} />${node.software && html`<span class="muted">${node.software}</span>`}${node.heard_via === "quorum" && html`<span class="warn">Its admin listener does not answer from here; what is shown comes from the quorum's leader.</span>`}</div>
    ${node.not_ready_because && html`<div class="notice bad"><div><strong>Not ready</strong><p>${node.not_ready_because}</p></div></div>`}
    ${node.alarms?.map((each) => html`<div class="notice bad"><div><strong>${each.cause}</strong><p>${each.text} Since ${time(each.since_ms)}.</p></div></div>`)}
    <div class="figures"><${Figure} label="Role">${node.role ?? "–"}<//><${Figure} label="Term">${count(node.term)}<//><${Figure} label="Applied" note=${`committed ${count(node.commit_index)}`}>${count(node.applied_index)}<//><${Figure} label="Behind">${duration(node.lag_ms)}<//><${Figure} label="Partitions" note=${`leads ${count(node.partitions_led)}`} href="/nodes?view=isr">${count(node.partitions_held)}<//><${Figure} label="Clock" note="against the console">${node.clock_ahead_ms == null ? "–" : `${Math.round(node.clock_ahead_ms)} ms`}<//></div>
    <div class="columns"><${Card} title="Machine"><dl class="pairs"><dt>Address</dt><dd class="mono">${node.host}:${node.port}</dd><dt>Admin</dt><dd class="mono">${node.admin ?? "–"}</dd><dt>Directory</dt><dd class="mono">${machine?.log_dir ?? "–"}</dd><dt>Disk</dt><dd><${Disk} free=${machine?.disk_free_bytes} total=${machine?.disk_total_bytes} /></dd>
        <dt>Sync p50, p99</dt><dd>${duration(machine?.sync_p50_ms)}, ${duration(machine?.sync_p99_ms)}</dd><dt>Memory</dt><dd>${bytes(machine?.memory_bytes)}</dd><dt>Held by requests</dt><dd>${bytes(machine?.memory_held_bytes)} of ${bytes(machine?.memory_budget_bytes)}</dd><dt>Connections</dt><dd>${count(machine?.connections)} of ${count(machine?.connections_max)}</dd><dt>Open segments</dt><dd>${count(machine?.segments_open)} of ${count(machine?.segments_open_max)}</dd></dl><//>
      <${Card} title="Storage"><dl class="pairs"><dt>Damaged logs</dt><dd class=${storage?.damaged_logs ? "bad" : ""}>${count(storage?.damaged_logs)}</dd><dt>Damaged last copies</dt><dd class=${storage?.last_copies_damaged ? "bad" : ""}>${count(storage?.last_copies_damaged)}</dd><dt>Stray logs</dt><dd>${count(storage?.stray_logs)}</dd><dt>Last scrub</dt><dd>${storage?.scrub_finished_ms ? time(storage.scrub_finished_ms) : "–"}</dd><dt>Checked</dt><dd>${bytes(storage?.scrub_checked_bytes)}</dd><dt>State hash</dt><dd class="mono wrap">${node.state_hash ?? "–"}</dd></dl><//></div>`;
}

const CELLS = /** @type {Record<string, [string, string]>} */ ({ leader: ["L", "leader"], isr: ["●", "in sync"], lagging: ["…", "lagging, not in sync"], offline: ["✕", "offline"], adding: ["+", "being added"], removing: ["−", "being removed"] });

function Matrix() {
  const LIMIT = 500;
  const offset = Number(parameter("offset", "0"));
  const answer = useGet("/nodes/isr", { search: parameter("search"), problems: parameter("problems", "0"), offset, limit: LIMIT }, { everyMs: 3000 });
  return html`<div class="bar"><div class="grow"><${Search} name="search" label="Filter topics by name" isMain /></div>
      <${Choice} name="problems" label="Partitions" otherwise="0" options=${[["0", "all"], ["1", "with problems"]]} />
      <span class="legend">${Object.entries(CELLS).map(([name, [sign, text]]) => html`<span><i class="isr ${name}">${sign}</i>${text}</span>`)}</span></div>
    <${Loaded} of=${answer} empty=${(data) => data.rows.length === 0 && (parameter("problems") === "1" ? html`<span class="good">✓</span> Every replica is in sync.` : "No partition is like this.")}>${(data) => html`<div class="table-frame scrolls whole"><table class="matrix"><thead><tr><th scope="col">Partition</th>${data.nodes.map((id) => html`<th scope="col"><a href=${to("nodes", id)}>${id}</a></th>`)}<th></th></tr></thead>
      <tbody>${data.rows.map((row) => html`<tr key="${row.topic}/${row.partition}"><th scope="row"><a class="mono" href="${to("topics", row.topic)}/partitions">${row.topic} / ${row.partition}</a>${row.leader_id == null && html` <${Badge} kind="bad">no leader<//>`}</th>
        ${row.cells.map((cell) => html`<td>${cell && html`<i class="isr ${cell}" title=${CELLS[cell]?.[1] ?? cell}>${CELLS[cell]?.[0] ?? "?"}</i>`}</td>`)}<td></td></tr>`)}</tbody></table></div>
      ${data.total > LIMIT && html`<p class="bar"><span class="muted">${count(offset + 1)} to ${count(offset + data.rows.length)} of ${counted(data.total, "partition")}</span>
        ${offset > 0 && html`<a class="button" href="/nodes?view=isr&offset=${Math.max(0, offset - LIMIT)}">Previous</a>`} ${offset + LIMIT < data.total && html`<a class="button" href="/nodes?view=isr&offset=${offset + LIMIT}">Next</a>`}</p>`}`}<//>`;
}

function Moves() {
  const answer = useGet("/nodes/moves", {}, { everyMs: 2000 });
  const [isCancelling, setCancelling] = useState(false);
  return html`<${Loaded} of=${answer} empty=${(data) => data.moves.length === 0 && "No replicas are moving."}>${(data) => html`<${Card} title=${counted(data.moves.length, "move")} actions=${html`<button onClick=${() => setCancelling(true)}>Cancel all</button>`}><table class="plain"><thead><tr><th>Partition</th><th>Adds</th><th>Removes</th><th>Copied</th></tr></thead><tbody>
      ${data.moves.map((each) => html`<tr><td class="mono">${each.topic} / ${each.partition}</td><td>${each.adding.join(", ")}</td><td>${each.removing.join(", ")}</td><td>${each.total_bytes ? html`<progress max=${each.total_bytes} value=${each.copied_bytes}></progress> ${bytes(each.copied_bytes)} of ${bytes(each.total_bytes)}` : "–"}</td></tr>`)}</tbody></table><//>`}<//>
    ${isCancelling && html`<${Change} title="Cancel all moves" path="/nodes/moves/cancel" body=${{}} confirm="Cancel the moves" onClose=${() => setCancelling(false)} onDone=${answer.reload} />`}`;
}
