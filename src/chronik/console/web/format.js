// @ts-check
/** Numbers, sizes, durations and times, as people read them. Unknown values (null) become a dash. */
import { signal } from "./lib.js";

export const UNKNOWN = "–";
const whole = new Intl.NumberFormat("en-US");

/** The zone of all times on the pages: "local" or "UTC". */
export const zone = signal(localStorage.getItem("chronik.zone") === "UTC" ? "UTC" : "local");

/** @param {number|null|undefined} value */
export const count = (value) => (value == null ? UNKNOWN : whole.format(value));

/** @param {number} value @param {string} one @param {string} [many] */
export const counted = (value, one, many) => `${count(value)} ${value === 1 ? one : (many ?? `${one}s`)}`;

/** Three digits and a unit: 12.4k. @param {number|null|undefined} value */
export function short(value) {
  if (value == null) return UNKNOWN;
  const size = Math.abs(value);
  if (size < 10 && value % 1) return value.toFixed(1);
  if (size < 1000) return String(Math.round(value));
  for (const [unit, at] of /** @type {[string, number][]} */ ([["k", 1e3], ["M", 1e6], ["G", 1e9], ["T", 1e12]]))
    if (size < at * 999.5) return trim(value / at) + unit;
  return value.toExponential(1);
}

/** @param {number} value */
const trim = (value) => (Math.abs(value) < 100 ? value.toFixed(1).replace(/\.0$/, "") : value.toFixed(0));

/** @param {number|null|undefined} value */
export function bytes(value) {
  if (value == null) return UNKNOWN;
  if (value < 1024) return `${Math.round(value)} B`;
  let size = value;
  for (const unit of ["KiB", "MiB", "GiB", "TiB"]) {
    size /= 1024;
    if (size < 999.5) return `${trim(size)} ${unit}`;
  }
  return `${trim(size / 1024)} PiB`;
}

/** @param {number|null|undefined} value */
export const rate = (value) => (value == null ? UNKNOWN : `${short(value)}/s`);

/** @param {number|null|undefined} value */
export const byteRate = (value) => (value == null ? UNKNOWN : `${bytes(value)}/s`);

/** @param {number|null|undefined} ms */
export function duration(ms) {
  if (ms == null) return UNKNOWN;
  if (ms < 1) return ms ? `${ms.toFixed(2)} ms` : "0 ms";
  if (ms < 1000) return `${ms < 10 ? trim(ms) : Math.round(ms)} ms`;
  if (ms < 60e3) return `${trim(ms / 1000)} s`;
  const parts = /** @type {[string, number][]} */ ([["d", 86400e3], ["h", 3600e3], ["m", 60e3], ["s", 1000]]);
  const first = parts.findIndex(([, size]) => ms >= size);
  const [unit, size] = parts[first];
  const next = parts[first + 1];
  const rest = next ? Math.floor((ms % size) / next[1]) : 0;
  return `${Math.floor(ms / size)}${unit}${rest ? ` ${rest}${next[0]}` : ""}`;
}

/** @param {number} value @param {number} [digits] */
const padded = (value, digits = 2) => String(value).padStart(digits, "0");

/** 2026-11-17 09:14:02.374, in the zone of the pages. @param {number|null|undefined} ms */
export function time(ms) {
  if (ms == null) return UNKNOWN;
  const at = shifted(ms);
  if (Number.isNaN(at.getTime())) return `${ms} ms`;
  return `${day(at)} ${clock(at)}.${padded(at.getUTCMilliseconds(), 3)}`;
}

/** Without the day if it is today. @param {number|null|undefined} ms */
export function timeOfDay(ms) {
  if (ms == null) return UNKNOWN;
  const at = shifted(ms);
  return day(at) === day(shifted(Date.now())) ? clock(at) : `${day(at)} ${clock(at)}`;
}

/** @param {Date} at */
const day = (at) => `${at.getUTCFullYear()}-${padded(at.getUTCMonth() + 1)}-${padded(at.getUTCDate())}`;
/** @param {Date} at */
const clock = (at) => `${padded(at.getUTCHours())}:${padded(at.getUTCMinutes())}:${padded(at.getUTCSeconds())}`;

/** A date whose UTC fields are those of the zone. @param {number} ms */
function shifted(ms) {
  const at = new Date(ms);
  return zone.value === "UTC" ? at : new Date(ms - at.getTimezoneOffset() * 60e3);
}

/** UTC+01:00. @param {number} [ms] */
export function zoneName(ms) {
  const minutes = zone.value === "UTC" ? 0 : -new Date(ms ?? Date.now()).getTimezoneOffset();
  if (!minutes) return "UTC";
  const size = Math.abs(minutes);
  return `UTC${minutes < 0 ? "-" : "+"}${padded(Math.floor(size / 60))}:${padded(size % 60)}`;
}

/** What an input of type datetime-local holds. @param {number} ms */
export const toInput = (ms) => time(ms).replace(" ", "T");

/** @param {string} text */
export const fromInput = (text) => new Date(zone.value === "UTC" ? `${text}Z` : text).getTime();

/** 5 m ago. @param {number|null|undefined} ms */
export function ago(ms) {
  if (ms == null) return UNKNOWN;
  const past = Date.now() - ms;
  if (Math.abs(past) < 1500) return "now";
  return past > 0 ? `${duration(coarse(past))} ago` : `in ${duration(coarse(-past))}`;
}

/** @param {number} ms */
const coarse = (ms) => (ms < 60e3 ? Math.round(ms / 1000) * 1000 : ms);
