// @ts-check
/** The keyboard: g and a letter goes to a page, j and k move through a list, / searches, ? lists the keys. */
import { signal } from "./lib.js";
import { go } from "./router.js";

/** @type {[string, string, string, string][]} Path, name, key after g, drawing of the icon (24 by 24). */
export const PAGES = [
  ["/", "Overview", "o", "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-4H4zM14 8h6V4h-6z"],
  ["/topics", "Topics", "t", "M4 6h16M4 12h16M4 18h10"],
  ["/groups", "Groups", "r", "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 20c.4-3.6 3-5.5 6.5-5.5s6.100 1.9 6.5 5.5M16 4.5a3.5 3.5 0 0 1 0 6.5M18 15c2 .8 3.2 2.5 3.5 5"],
  ["/nodes", "Nodes", "n", "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01"],
  ["/sql", "SQL", "s", "M5 6c0-1.7 3.100-3 7-3s7 1.3 7 3-3.100 3-7 3-7-1.3-7-3zM5 6v12c0 1.7 3.100 3 7 3s7-1.3 7-3V6M5 12c0 1.7 3.100 3 7 3s7-1.3 7-3"],
  ["/pipelines", "Pipelines", "p", "M4 5h6v5H4zM14 14h6v5h-6zM7 10v6.5h7"],
  ["/letters", "Letters", "l", "M3 6h18v12H3zM3 7l9 6 9-6"],
  ["/doctor", "Doctor", "d", "M3 12h4l3-7 4 14 3-7h4"],
  ["/lab", "Lab", "b", "M9 3h6M10 3v6L4.5 19a1.3 1.3 0 0 0 1.2 2h12.6a1.3 1.3 0 0 0 1.2-2L14 9V3M7.5 15h9"],
  ["/security", "Security", "e", "M12 3l8 3v6c0 4.5-3.2 7.7-8 9-4.800-1.3-8-4.5-8-9V6z"],
  ["/activity", "Activity", "a", "M12 8v4.5l3 2M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z"],
];

export const isHelpOpen = signal(false);

/** @type {{move: (by: number) => void, open: () => void}|null} */
let list = null;

/** The list that j, k and Enter act on. @param {{move: (by: number) => void, open: () => void}} next */
export function setList(next) {
  list = next;
  return () => {
    if (list === next) list = null;
  };
}

let afterG = 0;

addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (target.closest("input, textarea, select, [contenteditable]")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  const isAfterG = Date.now() - afterG < 1500;
  afterG = 0;
  if (isAfterG) {
    const page = PAGES.find(([, , key]) => key === event.key);
    if (page) return void go(page[0]);
  }
  const act = ACTS[event.key];
  if (!act || (event.key === "Enter" && target.closest("a, button"))) return;
  if (act() !== false) event.preventDefault();
});

/** @type {Record<string, () => void|boolean>} */
const ACTS = {
  g: () => void (afterG = Date.now()),
  j: () => list?.move(1),
  k: () => list?.move(-1),
  Enter: () => (list ? list.open() : false),
  "/": () => document.querySelector(/** @type {any} */ ("#search"))?.focus(),
  f: () => document.querySelector(/** @type {any} */ ("[data-filter=true]"))?.focus(),
  "?": () => void (isHelpOpen.value = true),
  Escape: () => {
    const button = /** @type {HTMLElement|null} */ (document.querySelector("[data-escape]"));
    if (!button) return false;
    button.click();
  },
};
