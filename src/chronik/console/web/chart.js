// @ts-check
/** Lines over time: small ones as SVG, large ones by uPlot, which is loaded when the first one is shown. */
import { html, useEffect, useRef } from "./lib.js";
import { short, time, timeOfDay, zone, zoneName } from "./format.js";
import { theme } from "./theme.js";

const WIDTH = 120;
const HEIGHT = 28;
const POINTS_MIN = 150;

/** @param {{values: (number|null)[], label: string, kind?: string}} props */
export function Sparkline({ values, label, kind = "" }) {
  const known = values.filter((each) => each != null);
  if (known.length < 2) return html`<span class="faint sparkline-none">not enough data yet</span>`;
  const top = Math.max(...known) || 1;
  const step = WIDTH / (values.length - 1);
  let path = "";
  let isPen = false;
  values.forEach((value, index) => {
    if (value == null) return void (isPen = false);
    path += `${isPen ? "L" : "M"}${(index * step).toFixed(1)} ${(HEIGHT - 2 - (value / top) * (HEIGHT - 5)).toFixed(1)}`;
    isPen = true;
  });
  return html`<svg class="sparkline ${kind}" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label=${label}>
    <path d=${path} fill="none" vector-effect="non-scaling-stroke" /></svg>`;
}

/** A variable of the style sheet as canvases understand it. @param {string} name */
export function color(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** @type {Promise<any>|null} */
let library = null;

function load() {
  library ??= new Promise((resolve) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = "/static/vendor/uplot.css";
    document.head.append(link);
    resolve(import("./vendor/uplot.js"));
  });
  return library;
}

/**
 * Lines over one axis of time.
 * @param {{label: string, times: number[], series: {name: string, values: (number|null)[], color: string, format?: (value: any) => string}[],
 *   height?: number, isTime?: boolean}} props `times` in ms; `color` is the name of a CSS variable.
 */
export function Chart({ label, times: allTimes, series: allSeries, height = 220, isTime = true }) {
  // What nothing was measured for yet is left out, down to a stretch in which a line can be seen.
  const measured = allTimes.findIndex((_, index) => allSeries.some((each) => each.values[index] != null));
  const first = isTime ? Math.max(0, Math.min(measured, allTimes.length - POINTS_MIN)) : 0;
  const times = allTimes.slice(first);
  const series = allSeries.map((each) => ({ ...each, values: each.values.slice(first) }));
  const holder = /** @type {{current: HTMLElement|null}} */ (useRef(null));
  const plot = useRef(/** @type {any} */ (null));
  const shape = JSON.stringify([series.map((each) => [each.name, each.color]), theme.value, zone.value, height]);
  const data = [isTime ? times.map((ms) => ms / 1000) : times, ...series.map((each) => each.values)];
  const newest = useRef(data);
  newest.current = data;
  useEffect(() => {
    let isGone = false;
    let observer = /** @type {ResizeObserver|null} */ (null);
    load().then(({ default: UPlot }) => {
      const element = holder.current;
      if (isGone || !element) return;
      const line = color("line");
      const axis = { stroke: color("muted"), grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui" };
      const write = series[0].format ?? short;
      plot.current = new UPlot(
        {
          width: element.clientWidth || 600,
          height,
          tzDate: (ts) => (zone.value === "UTC" ? UPlot.tzDate(new Date(ts * 1000), "Etc/UTC") : new Date(ts * 1000)),
          cursor: { points: { size: 6 } },
          legend: { live: true },
          scales: { x: { time: isTime }, y: { range: (_, __, high) => [0, high > 0 ? high * 1.08 : 1] } },
          axes: [
            { ...axis, space: 70, size: 30, ...(isTime ? { values: (_, at) => at.map((each) => timeOfDay(each * 1000).slice(-8, -3)) } : {}) },
            { ...axis, size: 64, values: (_, at) => at.map((each) => write(each)) },
          ],
          series: [
            { label: isTime ? `Time (${zoneName()})` : "x", value: (_, at) => (at == null ? "–" : isTime ? time(at * 1000) : short(at)) },
            ...series.map((each) => ({
              label: each.name,
              stroke: color(each.color),
              width: 1.5,
              points: { show: false },
              value: (_, at) => (each.format ?? short)(at),
            })),
          ],
        },
        newest.current,
        element,
      );
      observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }));
      observer.observe(element);
    });
    return () => {
      isGone = true;
      observer?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(data));
  const spoken = series.map((each) => `${each.name}: ${(each.format ?? short)(each.values.findLast((value) => value != null) ?? null)}`);
  return html`<figure class="chart" role="img" aria-label="${label}; newest values: ${spoken.join(", ")}"><div ref=${holder} style=${{ minHeight: `${height}px` }}></div></figure>`;
}

/** The times of a series as the API gives it. @param {{start_ms: number, step_ms: number}} answer @param {number} length */
export const timesOf = ({ start_ms, step_ms }, length) => Array.from({ length }, (_, index) => start_ms + index * step_ms);
