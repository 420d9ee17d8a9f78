// @ts-check
/** What was done through this console, by whom, and the command that does the same. */
import { html } from "../lib.js";
import { useGet } from "../api.js";
import { time, zoneName } from "../format.js";
import { Badge, Loaded, Page } from "../parts.js";
import { Rows } from "../table.js";

const KINDS = /** @type {Record<string, string>} */ ({ done: "good", refused: "warn", failed: "bad" });

const COLUMNS = [
  { id: "time", title: "Time", width: "210px", kind: "mono", cell: (row) => time(row.time_ms) },
  { id: "user", title: "User", width: "110px", kind: "wide", cell: (row) => row.user ?? html`<span class="faint">by token</span>` },
  { id: "address", title: "From", width: "120px", kind: "mono wide", cell: (row) => row.address },
  { id: "outcome", title: "Outcome", width: "90px", cell: (row) => html`<${Badge} kind=${KINDS[row.outcome] ?? ""}>${row.outcome}<//>` },
  { id: "action", title: "Action", width: "150px", cell: (row) => row.action },
  { id: "target", title: "On", width: "18%", kind: "mono wide", cell: (row) => row.target },
  { id: "command", title: "Command", kind: "mono wide", cell: (row) => row.command },
];

export default function Activity() {
  const answer = useGet("/activity", { limit: 1000 }, { everyMs: 5000 });
  return html`<${Page} title="Activity" note="What was done through this console since it started; times in ${zoneName()}" />
    <${Loaded} of=${answer} empty=${(data) => data.activity.length === 0 && "Nothing was done through this console yet."}>
      ${(data) => html`<${Rows} label="Activity" columns=${COLUMNS} rows=${data.activity} />`}<//>`;
}
