// @ts-check
/** What pages import of the libraries: templates, hooks and signals, from one place. */
import htm from "./vendor/htm.js";
import { h } from "./vendor/preact.js";

export { render } from "./vendor/preact.js";
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact-hooks.js";
export { batch, computed, effect, signal } from "./vendor/signals.js";

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} Markup; values become text nodes, never markup. */
export const html = htm.bind(/** @type {any} */ (h));
