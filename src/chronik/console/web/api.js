// @ts-check
/** The JSON API of the console: requests, errors in words, answers that are renewed, and streams. */
import { signal, useEffect, useRef, useState } from "./lib.js";

const BASE = "/api/v1";

/** Why there is no session, or null: the login page is shown. @type {import("./vendor/signals-core.js").Signal<any>} */
export const signedOut = signal(null);

export class ApiError extends Error {
  /** @param {number} status @param {any} error */
  constructor(status, error) {
    super(error.message || `the console answered ${status}`);
    this.status = status;
    this.code = error.code || "";
    this.hint = error.hint || "";
  }
}

/** @typedef {Record<string, any>} Parameters */

/** @param {string} path @param {Parameters} [parameters] */
export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters))
    if (value != null && value !== "") for (const each of Array.isArray(value) ? value : [value]) query.append(name, each);
  const text = query.toString();
  return BASE + path + (text ? `?${text}` : "");
}

/** @param {string} url @param {RequestInit} options @returns {Promise<Response>} */
async function ask(url, options) {
  let answer;
  try {
    answer = await fetch(url, options);
  } catch (why) {
    if (options.signal?.aborted) throw why;
    throw new ApiError(0, {
      code: "CONSOLE_GONE",
      message: "The console does not answer.",
      hint: "Is it still running? Start it again with `chronik console`; the page then goes on by itself.",
    });
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  const error = new ApiError(answer.status, body.error || {});
  if (answer.status === 401 && error.code === "SIGNED_OUT") signedOut.value = body.error;
  throw error;
}

/** @param {string} path @param {Parameters} [parameters] @param {AbortSignal} [abort] */
export const get = async (path, parameters, abort) =>
  (await ask(address(path, parameters), { signal: abort })).json();

/** @param {string} path @param {any} body @param {AbortSignal} [abort] */
export const send = (path, body, abort) =>
  ask(BASE + path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Chronik-Console": "1" },
    body: JSON.stringify(body),
    signal: abort,
  });

/** @param {string} path @param {any} body @param {AbortSignal} [abort] */
export const post = async (path, body, abort) => (await send(path, body, abort)).json();

/** @typedef {{data: any, error: ApiError|null, isLoading: boolean, atMs: number, isFresh: boolean, reload: () => void}} Answer
 * `isFresh`: the data is the answer to the present address, not to an earlier one. */

/**
 * The answer to a GET, asked again when the address changes and every `everyMs`. Earlier data stays while the next answer
 * is awaited and when it fails. A path of null asks nothing.
 * @param {string|null} path @param {Parameters} [parameters] @param {{everyMs?: number}} [options] @returns {Answer}
 */
export function useGet(path, parameters, { everyMs = 0 } = {}) {
  const url = path === null ? null : address(path, parameters);
  const [state, setState] = useState({ url, data: /** @type {any} */ (null), error: /** @type {any} */ (null), isLoading: true, atMs: 0 });
  const again = useRef(() => {});
  useEffect(() => {
    if (url === null) return;
    const abort = new AbortController();
    let timer = 0;
    const load = async () => {
      clearTimeout(timer);
      if (!document.hidden) {
        setState((was) => ({ ...was, isLoading: true }));
        try {
          const data = await (await ask(url, { signal: abort.signal })).json();
          setState({ url, data, error: null, isLoading: false, atMs: Date.now() });
        } catch (error) {
          if (abort.signal.aborted) return;
          setState((was) => ({ ...was, url, data: was.url === url ? was.data : null, error, isLoading: false }));
        }
      }
      if (everyMs && !abort.signal.aborted) timer = setTimeout(load, everyMs);
    };
    again.current = load;
    const shown = () => !document.hidden && everyMs && load();
    document.addEventListener("visibilitychange", shown);
    load();
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", shown);
    };
  }, [url, everyMs]);
  const isOther = state.url?.split("?")[0] !== url?.split("?")[0];
  const shown = isOther ? { data: null, error: null, isLoading: true, atMs: 0 } : state;
  return { ...shown, isFresh: state.url === url && state.data !== null, reload: () => again.current() };
}

/** The last look at a list of rows that is fetched in pages as they come into view.
 * @param {string} path @param {Parameters} parameters @param {string} field @param {{everyMs?: number}} [options] */
export function useRows(path, parameters, field, { everyMs = 0 } = {}) {
  const PAGE = 200;
  const [first, setFirst] = useState(0);
  const kept = useRef({ key: "", pages: /** @type {Map<number, any[]>} */ (new Map()) });
  const key = address(path, parameters);
  const answer = useGet(path, { ...parameters, offset: first * PAGE, limit: PAGE * 2 }, { everyMs });
  const data = answer.data;
  if (data && answer.isFresh) {
    if (kept.current.key !== key) kept.current = { key, pages: new Map() };
    const at = Math.floor((data.offset ?? 0) / PAGE);
    kept.current.pages.set(at, data[field].slice(0, PAGE));
    kept.current.pages.set(at + 1, data[field].slice(PAGE));
  }
  const total = data ? (data.matching ?? data.total ?? data[field].length) : 0;
  return {
    answer,
    total,
    /** @param {number} index */
    row: (index) => kept.current.pages.get(Math.floor(index / PAGE))?.[index % PAGE],
    /** @param {number} from @param {number} _until */
    onRange: (from, _until) => setFirst(Math.floor(from / PAGE)),
  };
}

/** Server-sent events; the function closes the stream. @param {string} path @param {Parameters} parameters
 * @param {Record<string, (data: any) => void>} handlers @param {(isOpen: boolean) => void} [onState] */
export function stream(path, parameters, handlers, onState = () => {}) {
  const source = new EventSource(address(path, parameters));
  source.onopen = () => onState(true);
  source.onerror = () => onState(false);
  for (const [name, handle] of Object.entries(handlers))
    source.addEventListener(name, (event) => handle(JSON.parse(/** @type {MessageEvent} */ (event).data)));
  return () => source.close();
}
