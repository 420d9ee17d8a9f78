// @ts-check
/** What ticks for all pages: overview, events and metrics, over one stream that is opened again when it ends. */
import { signal } from "./lib.js";
import { get, stream } from "./api.js";

/** @type {import("./vendor/signals-core.js").Signal<any>} */
export const session = signal(null);
/** @type {import("./vendor/signals-core.js").Signal<any>} */
export const overview = signal(null);
/** Newest first. @type {import("./vendor/signals-core.js").Signal<any[]>} */
export const events = signal([]);
/** The newest values of series, by name. @type {import("./vendor/signals-core.js").Signal<any>} */
export const ticks = signal(null);
/** "opening", "open" or "broken". */
export const link = signal("opening");

const EVENTS_MAX = 500;
let close = () => {};
let retry = 0;

export function follow() {
  close();
  clearTimeout(retry);
  close = stream(
    "/stream",
    {},
    {
      overview: (data) => {
        overview.value = data;
        link.value = "open";
      },
      event: (data) => (events.value = merge([data], events.value)),
      metrics: (data) => (ticks.value = data),
    },
    (isOpen) => {
      link.value = isOpen ? "open" : "broken";
      // A browser does not retry a stream that was refused.
      if (!isOpen) retry = setTimeout(check, 3000);
    },
  );
}

async function check() {
  if (link.value !== "broken") return;
  try {
    session.value = await get("/session");
    follow();
  } catch {
    retry = setTimeout(check, 3000);
  }
}

/** @param {any[]} some @param {any[]} others */
function merge(some, others) {
  const byId = new Map([...others, ...some].map((each) => [each.id, each]));
  return [...byId.values()].sort((a, b) => b.id - a.id).slice(0, EVENTS_MAX);
}

export async function loadEvents() {
  const answer = await get("/events", { limit: 50 });
  events.value = merge(answer.events, events.value);
}
