// @ts-check
/** Users, access rules and quotas of the brokers. */
import { html } from "../lib.js";
import { useGet } from "../api.js";
import { byteRate, count } from "../format.js";
import { Badge, Loaded, Page, Search, Tabs } from "../parts.js";
import { parameter, place } from "../router.js";
import { Rows } from "../table.js";

const TABS = /** @type {[string, string][]} */ ([["", "Access rules"], ["users", "Users"], ["quotas", "Quotas"]]);

export default function Security() {
  const tab = place.value.parts[1] ?? "";
  return html`<${Page} title="Security" /><${Tabs} tabs=${TABS} base="/security" active=${tab} />
    ${tab === "users" ? html`<${Users} />` : tab === "quotas" ? html`<${Quotas} />` : html`<${Rules} />`}`;
}

const RULE_COLUMNS = [
  { id: "principal", title: "Principal", kind: "mono", cell: (row) => row.principal },
  { id: "permission", title: "", width: "80px", cell: (row) => html`<${Badge} kind=${/allow/i.test(row.permission) ? "good" : "bad"}>${row.permission}<//>` },
  { id: "operation", title: "Operation", width: "150px", cell: (row) => row.operation },
  { id: "type", title: "Resource", width: "150px", cell: (row) => row.resource_type },
  { id: "name", title: "Name", kind: "mono", cell: (row) => html`${row.resource_name}${/prefix/i.test(row.pattern_type) && html`<span class="muted">…</span>`}` },
  { id: "host", title: "Host", width: "120px", kind: "mono wide", cell: (row) => row.host },
];

function Rules() {
  const answer = useGet("/security/acls");
  const text = parameter("search").toLowerCase();
  return html`<div class="bar"><div class="grow"><${Search} name="search" label="Filter by principal or name" isMain /></div></div>
    <${Loaded} of=${answer} empty=${(data) => (data.is_enabled === false ? html`<p>The brokers check no access: every client may do everything.</p><p>How to change that: <code>docs/how-to/secure.md</code></p>` : data.acls.length === 0 && "There are no access rules.")}>
      ${(data) => html`<${Rows} label="Access rules" columns=${RULE_COLUMNS} rows=${data.acls.filter((each) => `${each.principal} ${each.resource_name}`.toLowerCase().includes(text))} />`}<//>`;
}

function Users() {
  const columns = [
    { id: "name", title: "User", kind: "mono", cell: (row) => row.name },
    { id: "logins", title: "Logins", cell: (row) => row.mechanisms.map((each) => html`<${Badge}>${each.mechanism}, ${count(each.iterations)} iterations<//> `) },
  ];
  return html`<${Loaded} of=${useGet("/security/users")} empty=${(data) => data.users.length === 0 && html`<p>No user has a password in this cluster.</p><p>Create one with <code>chronik user add</code></p>`}>
    ${(data) => html`<${Rows} label="Users" columns=${columns} rows=${data.users} />`}<//>`;
}

function Quotas() {
  const columns = [
    { id: "entity", title: "For", kind: "mono", cell: (row) => Object.entries(row.entity).map(([kind, name]) => `${kind} ${name ?? "(default)"}`).join(", ") },
    { id: "values", title: "Limits", cell: (row) => Object.entries(row.values).map(([name, value]) => html`<span class="pair">${name} <b>${name.endsWith("byte_rate") ? byteRate(/** @type {number} */ (value)) : count(/** @type {number} */ (value))}</b></span>`) },
  ];
  return html`<${Loaded} of=${useGet("/security/quotas")} empty=${(data) => data.quotas.length === 0 && "No client has a quota."}>
    ${(data) => html`<${Rows} label="Quotas" columns=${columns} rows=${data.quotas} />`}<//>`;
}
