// @ts-check
/** What is wrong or unwise in the cluster, what follows from it, and what mends it. */
import { html } from "../lib.js";
import { useGet } from "../api.js";
import { ago, counted, duration, timeOfDay } from "../format.js";
import { Badge, Command, Loaded, Page, Prose } from "../parts.js";
import { parameter, setQuery } from "../router.js";

export default function Doctor() {
  const answer = useGet("/doctor");
  const only = parameter("severity");
  const data = answer.data;
  const found = (kind) => data.findings.filter((each) => each.severity === kind).length;
  return html`<${Page} title="Doctor" note=${data && `${counted(data.checks, "check")} in ${duration(data.elapsed_ms)}`}><button onClick=${answer.reload} disabled=${answer.isLoading}>${answer.isLoading ? "Looking …" : "Look again"}</button><//>
    ${answer.isLoading && !data && html`<p class="muted">Asking every node for its state. This takes up to six seconds, longer than usual if nodes do not answer.</p>`}
    <${Loaded} of=${answer} empty=${() => data.findings.length === 0 && html`<p><span class="good">✓</span> Nothing is wrong.</p><${Command} text=${data.command} />`}>${() => html`
      <div class="bar"><div class="segments" role="group" aria-label="Severity">${[["", `All ${data.findings.length}`], ["problem", `Problems ${found("problem")}`], ["advice", `Advice ${found("advice")}`]].map(([id, text]) => html`<button aria-pressed=${only === id} onClick=${() => setQuery({ severity: id })}>${text}</button>`)}</div></div>
      <div class="findings">${data.findings.filter((each) => !only || each.severity === only).map((each) => html`<article class=${each.severity}>
        <header><${Badge} kind=${each.severity === "problem" ? "bad" : "warn"}>${each.severity}<//><h2>${each.link ? html`<a href=${each.link}>${each.what}</a>` : each.what}</h2><span class="faint mono">${each.check}</span></header>
        <p>${each.consequence}</p>${each.action && html`<p><b>Do:</b> <${Prose} text=${each.action} /></p>`}${each.since_ms != null && html`<p class="muted">Since ${timeOfDay(each.since_ms)}, ${ago(each.since_ms)}.</p>`}</article>`)}</div>
      <${Command} text=${data.command} />`}<//>`;
}
