// @ts-check
/** Tables of any length: only the rows in view are in the document. All rows are equally high, so that a row's place is known. */
import { html, signal, useEffect, useLayoutEffect, useRef, useState } from "./lib.js";
import { parameter, setQuery } from "./router.js";
import { setList } from "./keys.js";

export const ROW_HEIGHT = 34;
const narrow = matchMedia("(max-width: 760px)");
/** Whether the screen is that of a phone: tables then leave out columns of the kind "wide". */
export const isNarrow = signal(narrow.matches);
narrow.addEventListener("change", () => (isNarrow.value = narrow.matches));

const FLEXIBLE_PX = 120; // what a column without a width of its own needs at least
const BEYOND = 12; // rows above and below the view, so that scrolling shows no gaps

/**
 * @typedef {{id: string, title: any, cell: (row: any, index: number) => any, width?: string, sort?: string, kind?: string}} Column
 * `sort` is the server's name of the order; `kind` is one of number, mono, wide (left out on narrow screens).
 *
 * @param {{columns: Column[], count: number, row: (index: number) => any, onRange?: (first: number, last: number) => void,
 *   href?: (row: any) => string|undefined, onOpen?: (row: any, index: number) => void, label: string, defaultSort?: string,
 *   active?: (row: any) => boolean, after?: any, before?: any, wanted?: {index: number, key: string}}} props
 * `wanted` is a row that comes into view when the key changes, or when a row of that key is there at last.
 */
export function Table({ columns: all, count, row, onRange, href, onOpen, label, defaultSort = "", active, after, before, wanted }) {
  const columns = isNarrow.value ? all.filter((each) => !each.kind?.includes("wide")) : all;
  const body = /** @type {{current: HTMLElement|null}} */ (useRef(null));
  const [view, setView] = useState({ first: 0, last: 40 });
  const [chosen, setChosen] = useState(-1);

  useLayoutEffect(() => {
    const scroller = document.querySelector("main");
    if (!scroller) return;
    const measure = () => {
      if (!body.current) return;
      const top = scroller.getBoundingClientRect().top - body.current.getBoundingClientRect().top;
      const first = Math.max(0, Math.floor(top / ROW_HEIGHT) - BEYOND);
      const last = Math.max(first, Math.min(count, Math.ceil((top + scroller.clientHeight) / ROW_HEIGHT) + BEYOND));
      setView((was) => (was.first === first && was.last === last ? was : { first, last }));
    };
    measure();
    scroller.addEventListener("scroll", measure, { passive: true });
    addEventListener("resize", measure);
    return () => (scroller.removeEventListener("scroll", measure), removeEventListener("resize", measure));
  }, [count]);
  const last = Math.min(view.last, count);
  const first = Math.min(view.first, last);
  useEffect(() => onRange?.(first, last), [first, last]);

  const isThere = wanted !== undefined && wanted.index >= 0;
  useEffect(() => {
    if (isThere) reveal(body.current, wanted.index);
  }, [wanted?.key, isThere]);

  const open = (index) => {
    const item = row(index);
    if (item === undefined) return;
    const target = href?.(item);
    if (target) /** @type {HTMLElement|null} */ (body.current?.querySelector(`[data-index="${index}"] a`))?.click();
    else onOpen?.(item, index);
  };
  // Keys come faster than renderings, so they act on what is newest, not on what was shown last.
  const newest = useRef({ chosen: -1, count, open });
  newest.current.count = count;
  newest.current.open = open;
  const choose = (index) => setChosen((newest.current.chosen = index));
  const isList = Boolean(href || onOpen);
  useLayoutEffect(() => {
    if (!isList) return;
    return setList({
      move: (by) => {
        choose(Math.max(0, Math.min(newest.current.count - 1, newest.current.chosen + by)));
        reveal(body.current, newest.current.chosen);
      },
      open: () => newest.current.chosen >= 0 && newest.current.open(newest.current.chosen),
    });
  }, [isList]);

  const least = columns.reduce((sum, each) => sum + (each.width?.endsWith("px") ? Number.parseInt(each.width) : FLEXIBLE_PX), 0);
  const shown = [];
  for (let index = first; index < last; index++) shown.push(index);
  return html`<div class="table-frame"><table class="rows" aria-label=${label} aria-rowcount=${count} style=${isNarrow.value ? { minWidth: `${least}px` } : undefined}>
    <colgroup>${columns.map((each) => html`<col style=${each.width ? { width: each.width } : undefined} />`)}</colgroup>
    <thead><tr>${columns.map((each) => html`<${Heading} column=${each} otherwise=${defaultSort} />`)}</tr></thead>
    ${before && html`<tbody><tr><td colspan=${columns.length} class="edge">${before}</td></tr></tbody>`}
    <tbody ref=${body}>
      ${first > 0 && html`<tr key="above" class="spacer"><td colspan=${columns.length} style=${{ height: `${first * ROW_HEIGHT}px` }}></td></tr>`}
      ${shown.map((index) => {
        const item = row(index);
        return html`<tr key=${index} data-index=${index} aria-rowindex=${index + 1}
          class="${index === chosen ? "chosen " : ""}${item !== undefined && active?.(item) ? "active " : ""}${href || onOpen ? "opens" : ""}"
          onClick=${onOpen && !href ? () => (choose(index), open(index)) : undefined}>
          ${columns.map((each) => html`<td class=${each.kind ?? ""}>${item === undefined ? html`<span class="skeleton"></span>` : each.cell(item, index)}</td>`)}
        </tr>`;
      })}
      ${last < count && html`<tr key="below" class="spacer"><td colspan=${columns.length} style=${{ height: `${(count - last) * ROW_HEIGHT}px` }}></td></tr>`}
    </tbody>
    ${after && html`<tbody><tr><td colspan=${columns.length} class="edge">${after}</td></tr></tbody>`}
  </table></div>`;
}

/** @param {{column: Column, otherwise: string}} props */
function Heading({ column, otherwise }) {
  const kind = column.kind ?? "";
  if (!column.sort) return html`<th scope="col" class=${kind}>${column.title}</th>`;
  const [field, order] = [parameter("sort", otherwise), parameter("order", "")];
  const isSorted = field === column.sort;
  const isDown = isSorted && order === "desc";
  const turn = () => setQuery({ sort: column.sort, order: isSorted ? (isDown ? "asc" : "desc") : kind.includes("number") ? "desc" : "asc" });
  return html`<th scope="col" class=${kind} aria-sort=${isSorted ? (isDown ? "descending" : "ascending") : "none"}>
    <button class="heading" onClick=${turn}>${column.title}${isSorted && html`<span class="arrow" aria-hidden="true">${isDown ? "↓" : "↑"}</span>`}</button></th>`;
}

/** @param {HTMLElement|null} body @param {number} index */
export function reveal(body, index) {
  const scroller = document.querySelector("main");
  if (!body || !scroller) return;
  const frame = scroller.getBoundingClientRect();
  const top = body.getBoundingClientRect().top + index * ROW_HEIGHT - frame.top;
  if (top < ROW_HEIGHT * 2) scroller.scrollBy(0, top - ROW_HEIGHT * 2);
  else if (top > frame.height - ROW_HEIGHT * 2) scroller.scrollBy(0, top - frame.height + ROW_HEIGHT * 2);
}

/** A table of rows that are all here. @param {any} props */
export const Rows = ({ rows, ...others }) => html`<${Table} count=${rows.length} row=${(index) => rows[index]} ...${others} />`;
