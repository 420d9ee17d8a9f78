// @ts-check
/** How many records each moment has; a click begins there, a drag looks closer. */
import { html, useRef, useState } from "../lib.js";
import { useGet } from "../api.js";
import { counted, duration, time, zoneName } from "../format.js";
import { parameter, setQuery, to } from "../router.js";

const BUCKETS = 60;
const HEIGHT = 46;

/** @param {{topic: string}} props */
export default function Histogram({ topic }) {
  const box = /** @type {{current: SVGElement|null}} */ (useRef(null));
  const [drag, setDrag] = useState(/** @type {[number, number]|null} */ (null));
  const [over, setOver] = useState(-1);
  const answer = useGet(`${to("topics", topic)}/histogram`, { from_ms: parameter("from_ms"), to_ms: parameter("to_ms"), buckets: BUCKETS, partition: parameter("partition") });
  const data = answer.data;
  if (!data || data.counts.length === 0) return html`<div class="histogram">${!data && !answer.error ? html`<span class="skeleton"></span>` : null}</div>`;
  const { counts, from_ms, step_ms } = data;
  const top = Math.max(...counts, 1);
  const at = (event) => {
    const frame = /** @type {SVGElement} */ (box.current).getBoundingClientRect();
    return Math.max(0, Math.min(counts.length, ((event.clientX - frame.left) / frame.width) * counts.length));
  };
  const finish = () => {
    if (!drag) return;
    const [low, high] = [Math.min(...drag), Math.max(...drag)];
    setDrag(null);
    const start = Math.round(from_ms + (high - low < 0.7 ? Math.floor(low) : low) * step_ms);
    const zoom = high - low < 0.7 ? {} : { from_ms: start, to_ms: Math.round(from_ms + high * step_ms) };
    setQuery({ start: `time:${start}`, cursor: null, direction: null, ...zoom }, true);
  };
  const moment = (index) => time(from_ms + index * step_ms).slice(0, 19);
  return html`<div class="histogram">
    <svg ref=${box} viewBox="0 0 ${counts.length} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="Records over time, from ${moment(0)} to ${moment(counts.length)}"
      onPointerDown=${(event) => (event.currentTarget.setPointerCapture(event.pointerId), setDrag([at(event), at(event)]))}
      onPointerMove=${(event) => (setOver(Math.min(counts.length - 1, Math.floor(at(event)))), drag && setDrag([drag[0], at(event)]))}
      onPointerUp=${finish} onPointerLeave=${() => setOver(-1)}>
      ${counts.map((value, index) => {
        const height = value ? Math.max(1.5, (value / top) * (HEIGHT - 2)) : 0;
        return html`<rect class=${index === over ? "over" : ""} x=${index + 0.1} width="0.8" y=${HEIGHT - height} height=${height} />`;
      })}
      ${drag && html`<rect class="drag" x=${Math.min(...drag)} width=${Math.abs(drag[1] - drag[0])} y="0" height=${HEIGHT} />`}
    </svg>
    <div class="scale muted"><span>${moment(0)}</span>
      <span>${over >= 0 ? html`<b>${counted(counts[over], "record")}</b> at ${moment(over)}` : html`${counted(counts.reduce((sum, each) => sum + each, 0), "record")}${!data.is_exact && ", estimated"}; ${duration(step_ms)} a bar, drag to choose a time (${zoneName()})`}
        ${parameter("from_ms") && html` <button class="link" onClick=${() => setQuery({ from_ms: null, to_ms: null })}>Show all</button>`}</span>
      <span>${moment(counts.length)}</span></div></div>`;
}
