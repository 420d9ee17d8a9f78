// @ts-check
/** Keys and values as text that cannot deceive: control characters become visible, JSON is indented without being parsed. */
import { html } from "./lib.js";
import { bytes } from "./format.js";

/** @typedef {{kind: string, text: string, size_bytes: number, is_truncated: boolean}} Value */

const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Control characters and those that turn or hide text become escapes, as in \x1b. @param {string} text */
export const visible = (text) =>
  text.replace(HIDDEN, (each) => {
    const code = each.charCodeAt(0);
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });

/** One line. @param {{value: Value|null, length?: number}} props */
export function Inline({ value, length = 400 }) {
  if (value === null) return html`<span class="faint">null</span>`;
  if (value.size_bytes === 0) return html`<span class="faint">empty</span>`;
  const text = visible(value.text.slice(0, length).replace(/\s+/g, " "));
  return html`${value.kind === "hex" && html`<span class="badge">hex</span> `}${text}${(value.is_truncated || value.text.length > length) && html`<span class="faint"> … ${bytes(value.size_bytes)}</span>`}`;
}

const TOKENS = /"(?:[^"\\]|\\.)*"?|[{}[\],:]|[^\s{}[\],:"]+/g;

/** Indented lines; numbers and escapes stay as they were written. @param {string} text */
export function indented(text) {
  const tokens = text.match(TOKENS) ?? [];
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.max(0, depth))}`;
  tokens.forEach((token, index) => {
    if (token === "{" || token === "[") {
      depth++;
      out += tokens[index + 1] === "}" || tokens[index + 1] === "]" ? token : token + line();
    } else if (token === "}" || token === "]") {
      depth--;
      out += tokens[index - 1] === "{" || tokens[index - 1] === "[" ? token : line() + token;
    } else if (token === ",") out += token + line();
    else out += token === ":" ? ": " : token;
  });
  return out;
}

const COLOURED_MAX = 60_000;
const PARTS = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|\b(true|false|null)\b/g;

/** JSON with colours, all of it text nodes. @param {string} text */
export function coloured(text) {
  if (text.length > COLOURED_MAX) return text;
  const out = [];
  let at = 0;
  for (const found of text.matchAll(PARTS)) {
    out.push(text.slice(at, found.index));
    at = found.index + found[0].length;
    const [whole, quoted, colon, number] = found;
    if (quoted) out.push(html`<span class=${colon ? "json-name" : "json-text"}>${quoted}</span>`, colon ?? "");
    else out.push(html`<span class=${number ? "json-number" : "json-word"}>${whole}</span>`);
  }
  out.push(text.slice(at));
  return out;
}

/** Hexadecimal digits as a dump of 16 bytes a line. @param {string} digits */
export function dump(digits) {
  const lines = [];
  for (let at = 0; at < digits.length; at += 32) {
    const pairs = digits.slice(at, at + 32).match(/../g) ?? [];
    const text = pairs.map((pair) => parseInt(pair, 16)).map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "."));
    lines.push(`${(at / 2).toString(16).padStart(8, "0")}  ${pairs.join(" ").padEnd(47)}  ${text.join("")}`);
  }
  return lines.join("\n");
}

/** @param {Value|null} value */
export const lines = (value) =>
  value === null ? ["null"] : visible(value.kind === "json" ? indented(value.text) : value.kind === "hex" ? dump(value.text) : value.text).split("\n");

/**
 * Two lists of lines as one: what is gone, what is new, what is the same.
 * @param {string[]} before @param {string[]} after @returns {["-"|"+"|" ", string][]}
 */
export function difference(before, after) {
  const LINES_MAX = 1500;
  if (before.length > LINES_MAX || after.length > LINES_MAX)
    return [...before.map((each) => /** @type {["-", string]} */ (["-", each])), ...after.map((each) => /** @type {["+", string]} */ (["+", each]))];
  const width = after.length + 1;
  const common = new Uint16Array((before.length + 1) * width);
  for (let i = before.length - 1; i >= 0; i--)
    for (let j = after.length - 1; j >= 0; j--)
      common[i * width + j] = before[i] === after[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
  /** @type {["-"|"+"|" ", string][]} */
  const out = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && j < after.length && before[i] === after[j]) (out.push([" ", before[i++]]), j++);
    else if (i < before.length && (j >= after.length || common[(i + 1) * width + j] >= common[i * width + j + 1])) out.push(["-", before[i++]]);
    else out.push(["+", after[j++]]);
  }
  return out;
}
