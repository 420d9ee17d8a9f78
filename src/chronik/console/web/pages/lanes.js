// @ts-check
/** A run drawn: one lane for each node, messages as lines from lane to lane, faults and the broken invariant as marks. */
import { html, useEffect, useRef } from "../lib.js";
import { color } from "../chart.js";
import { theme } from "../theme.js";

const [LEFT, LANE, STRIP] = [96, 44, 30];
const DRAWN_MAX = 3000;

/** @param {number} us */
export const seconds = (us) => `${(us / 1e6).toFixed(us % 1000 ? 6 : 3)} s`;

/** @param {{run: any, events: any[], near: any[], at: number, span: number, end: number, onMove: (time: number) => void}} props */
export function Lanes({ run, events, near, at, span, end, onMove }) {
  const canvas = /** @type {{current: HTMLCanvasElement|null}} */ (useRef(null));
  const lanes = run.lanes;
  const height = STRIP + 14 + lanes.length * LANE + 20;
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const draw = () => paint(element, { run, events, near, at, span, end, height });
    draw();
    const observer = new ResizeObserver(draw);
    observer.observe(element);
    return () => observer.disconnect();
  }, [run, events, at, span, theme.value]);
  const click = (event) => {
    const frame = event.currentTarget.getBoundingClientRect();
    const share = (event.clientX - frame.left - LEFT) / (frame.width - LEFT);
    if (share >= 0) onMove(event.clientY - frame.top < STRIP ? share * end : at + (share - 0.5) * span);
  };
  return html`<canvas ref=${canvas} class="lanes" style=${{ height: `${height}px` }} onClick=${click} role="img" aria-label="Messages between ${lanes.join(", ")} around ${seconds(at)}; the table below lists them"></canvas>`;
}

/** @param {HTMLCanvasElement} canvas @param {any} shown */
function paint(canvas, { run, events, near, at, span, end, height }) {
  const scale = devicePixelRatio;
  const width = canvas.clientWidth;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.scale(scale, scale);
  const [text, muted, line, accent, warn, bad, sunken] = ["text", "muted", "line", "accent", "warn", "bad", "sunken"].map(color);
  pen.font = "12px ui-monospace, monospace";
  pen.textBaseline = "middle";

  // The whole run: how much happened when, its faults, and the part that is shown below.
  const whole = (us) => LEFT + (us / end) * (width - LEFT);
  const bins = new Uint32Array(Math.max(1, Math.floor((width - LEFT) / 2)));
  for (const each of events) bins[Math.min(bins.length - 1, Math.floor((each.time_us / end) * bins.length))]++;
  const most = Math.max(1, ...bins);
  pen.fillStyle = line;
  bins.forEach((value, index) => pen.fillRect(LEFT + index * 2, STRIP - (value / most) * STRIP, 1.5, (value / most) * STRIP));
  for (const each of events) {
    if (each.kind !== "fault" && each.kind !== "invariant") continue;
    pen.fillStyle = each.kind === "fault" ? warn : bad;
    pen.fillRect(whole(each.time_us), 0, each.kind === "fault" ? 1 : 2.5, STRIP);
  }
  pen.strokeStyle = accent;
  pen.strokeRect(Math.max(LEFT, whole(at - span / 2)), 0.5, Math.max(3, ((width - LEFT) * span) / end), STRIP - 1);
  pen.fillStyle = muted;
  pen.fillText("whole run", 0, STRIP / 2);

  const place = (us) => LEFT + ((us - at) / span + 0.5) * (width - LEFT);
  const row = new Map(run.lanes.map((name, index) => [name, STRIP + 14 + index * LANE + LANE / 2]));
  for (const [name, y] of row) {
    pen.fillStyle = text;
    pen.fillText(String(name).slice(0, 12), 0, y);
    pen.fillStyle = sunken;
    pen.fillRect(LEFT, y - 1, width - LEFT, 2);
  }
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, STRIP, width - LEFT, height - STRIP);
  pen.clip();
  const step = Math.ceil(near.length / DRAWN_MAX);
  near.forEach((each, index) => {
    const y = row.get(each.lane);
    const x = place(each.time_us);
    if (each.kind === "message") {
      const other = row.get(each.to);
      if (index % step || y === undefined || other === undefined) return;
      const isLost = each.arrives_us == null;
      const share = isLost ? 0.45 : 1;
      const x2 = place(each.arrives_us ?? each.time_us + span / 60);
      pen.strokeStyle = isLost ? bad : accent;
      pen.globalAlpha = isLost ? 0.9 : 0.55;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(x + (x2 - x) * share, y + (other - y) * share);
      pen.stroke();
      pen.globalAlpha = 1;
      pen.fillStyle = pen.strokeStyle;
      pen.fillRect(x + (x2 - x) * share - 1.5, y + (other - y) * share - 1.5, 3, 3);
    } else if (each.kind === "fault" || each.kind === "invariant" || each.kind === "node") {
      pen.fillStyle = each.kind === "invariant" ? bad : each.kind === "fault" ? warn : text;
      if (y === undefined || each.kind === "invariant") pen.fillRect(x - 1, STRIP + 4, 2, height - STRIP - 20);
      else {
        pen.beginPath();
        pen.arc(x, y, 5, 0, 7);
        pen.fill();
      }
    }
  });
  pen.strokeStyle = muted;
  pen.setLineDash([3, 3]);
  pen.beginPath();
  pen.moveTo(place(at), STRIP + 4);
  pen.lineTo(place(at), height - 16);
  pen.stroke();
  pen.restore();
  pen.fillStyle = muted;
  for (const share of [0, 0.5, 1]) {
    pen.textAlign = share === 0 ? "left" : share === 1 ? "right" : "center";
    pen.fillText(seconds(at + (share - 0.5) * span), LEFT + share * (width - LEFT), height - 7);
  }
}
