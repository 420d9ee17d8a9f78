// @ts-check
/** The address is the state: every page and everything it shows can be linked. */
import { signal } from "./lib.js";

/** @typedef {{path: string, parts: string[], query: URLSearchParams}} Place */

export const place = signal(read());

/** @returns {Place} */
function read() {
  const parts = location.pathname.split("/").filter(Boolean).map(decodeURIComponent);
  return { path: location.pathname, parts, query: new URLSearchParams(location.search) };
}

/** @param {string} path @param {{replace?: boolean}} [options] */
export function go(path, { replace = false } = {}) {
  const before = location.pathname;
  history[replace ? "replaceState" : "pushState"](null, "", path);
  place.value = read();
  if (location.pathname !== before) document.querySelector("main")?.scrollTo(0, 0);
}

/** Sets parameters of the address; null removes one. @param {Record<string, any>} changes @param {boolean} [push] */
export function setQuery(changes, push = false) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    if (value != null && value !== "" && value !== false)
      for (const each of Array.isArray(value) ? value : [value]) query.append(name, String(each));
  }
  const text = query.toString().replace(/%3A/g, ":").replace(/%2C/g, ",");
  if (`?${text}` !== (location.search || "?")) go(location.pathname + (text ? `?${text}` : ""), { replace: !push });
}

/** @param {string} name @param {string} [otherwise] */
export const parameter = (name, otherwise = "") => place.value.query.get(name) ?? otherwise;

/** A path of encoded parts. @param {...(string|number)} parts */
export const to = (...parts) => `/${parts.map(encodeURIComponent).join("/")}`;

addEventListener("popstate", () => (place.value = read()));
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  const href = link?.getAttribute("href");
  if (!link || !href?.startsWith("/") || href.startsWith("/api/") || link.target || link.hasAttribute("download")) return;
  if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(href);
});
