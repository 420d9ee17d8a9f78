// @ts-check
/** Dead letters: by class of error, each beside its error, and the sum that shows that nothing was lost. */
import { html } from "../lib.js";
import { useGet } from "../api.js";
import { ago, count, counted, rate, time } from "../format.js";
import { Badge, Card, Loaded, Missing, Page } from "../parts.js";
import { parameter, place, setQuery, to } from "../router.js";
import { visible } from "../values.js";
import Records from "./records.js";
import Replay from "./replay.js";

export default () => (place.value.parts[1] ? html`<${Topic} key=${place.value.parts[1]} name=${place.value.parts[1]} />` : html`<${All} />`);

function All() {
  const answer = useGet("/letters", {}, { everyMs: 10e3 });
  return html`<${Page} title="Letters" note="Records that a pipeline could not process" />
    <${Loaded} of=${answer} empty=${(data) => data.topics.length === 0 && html`<p>No pipeline has dead letters: there is no topic TOPIC.dlq.</p>`}>${(data) => data.topics.map((each) => html`<${Card} key=${each.topic}
      title=${html`<a class="mono" href=${to("letters", each.topic)}>${each.topic}</a>`} actions=${html`<span class="muted">${each.new_per_s ? `${rate(each.new_per_s)} new, ` : ""}${each.last_ms == null ? "" : `last ${ago(each.last_ms)}`}</span><b>${counted(each.letters, "letter")}</b>`}>
      <${Classes} topic=${each} />
      ${each.is_truncated && html`<p class="muted">Counted over the newest 20,000 letters.</p>`}<//>`)}<//>`;
}

/** @param {{topic: any}} props */
function Classes({ topic }) {
  if (topic.classes.length === 0) return html`<p class="calm muted">The topic is empty.</p>`;
  const most = Math.max(...topic.classes.map((each) => each.count));
  return html`<table class="plain classes"><thead><tr><th>Error</th><th>Flow</th><th class="number">Letters</th><th class="wide">Share</th><th class="wide">First and last</th><th>Example</th></tr></thead><tbody>${topic.classes.map((each) => html`<tr>
    <td><a class="mono" href="${to("letters", topic.topic)}?error=${encodeURIComponent(each.error)}&flow=${encodeURIComponent(each.flow ?? "")}">${each.error}</a></td><td>${each.flow ? html`<a href=${to("pipelines", each.pipeline ?? "")}>${each.pipeline}/${each.flow}</a>` : "–"}</td><td class="number">${count(each.count)}</td>
    <td class="wide"><meter min="0" max=${most} value=${each.count}></meter></td><td class="wide muted nowrap" title="${time(each.first_ms)} to ${time(each.last_ms)}">${ago(each.first_ms)}, ${ago(each.last_ms)}</td><td class="muted example">${visible(each.example ?? "")}</td></tr>`)}</tbody></table>`;
}

/** @param {{name: string}} props */
function Topic({ name }) {
  const answer = useGet("/letters");
  const found = answer.data?.topics.find((each) => each.topic === name);
  const [error, flow] = [parameter("error"), parameter("flow")];
  const columns = [
    { id: "error", title: "Error", width: "180px", kind: "mono", cell: (row) => (row.letter ? html`<span class="bad">${row.letter.error}</span>` : html`<span class="faint">no letter</span>`) },
    { id: "flow", title: "Flow", width: "12%", kind: "wide", cell: (row) => row.letter && `${row.letter.pipeline}/${row.letter.flow}` },
  ];
  return html`<${Page} title=${name} trail=${[["Letters", "/letters"]]} note=${found && html`${counted(found.letters, "letter")} of <a class="mono" href=${to("topics", found.source)}>${found.source}</a>${found.last_ms == null ? "" : `, the last ${ago(found.last_ms)}`}`}><a class="button" href=${to("topics", name)}>As a topic</a><//>
    <${Proof} name=${name} />
    ${found && html`<${Card} title="Classes"><${Classes} topic=${found} /><//>`}
    <div class="bar">${(error || flow) && html`<span>Only ${error && html`<${Badge} kind="accent">${error}<//>`} ${flow && html`<${Badge} kind="accent">${flow}<//>`}</span><button onClick=${() => setQuery({ error: null, flow: null, cursor: null })}>Show all</button>`}</div>
    <${Replay} topic=${name} chosen=${parameter("record")} />
    <${Records} path=${to("letters", name)} topic=${name} extra=${{ isLetters: true, error, flow }} columns=${columns} />`;
}

/** @param {{name: string}} props */
function Proof({ name }) {
  const answer = useGet(`${to("letters", name)}/proof`);
  const data = answer.data;
  if (!data) return null;
  return html`${data.missing?.length > 0 && html`<${Missing} parts=${data.missing} />`}${data.flows.map((each) => html`<div class="notice ${each.is_proved ? "good" : "warn"}"><div><strong>${each.text}</strong> <span class="muted">${each.pipeline}/${each.flow}</span>
    <p>${each.is_proved ? "Every record that the flow read is a row, a letter, or was dropped on purpose." : each.difference ? `${counted(Math.abs(each.difference), "record")} ${each.difference > 0 ? "less" : "more"} came out than went in. Events that are not kept, or a batch under way, may be the reason.` : "There is not enough in the events to add it up."}</p></div></div>`)}`;
}
