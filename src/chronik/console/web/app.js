// @ts-check
/** The shell: who and where, navigation, search, and the page that the address names. */
import { html, render, useEffect, useRef, useState } from "./lib.js";
import { ApiError, get, post, signedOut } from "./api.js";
import { zone, zoneName } from "./format.js";
import { isHelpOpen, PAGES } from "./keys.js";
import { follow, link, loadEvents, overview, session } from "./live.js";
import { Dialog, Failure, Loading, Page } from "./parts.js";
import { go, place } from "./router.js";
import { nextTheme, theme } from "./theme.js";

/** @type {Record<string, () => Promise<{default: any}>>} Each page is loaded when it is first shown. */
const MODULES = {
  "": () => import("./pages/overview.js"),
  topics: () => import("./pages/topics.js"),
  groups: () => import("./pages/groups.js"),
  nodes: () => import("./pages/nodes.js"),
  sql: () => import("./pages/sql.js"),
  pipelines: () => import("./pages/pipelines.js"),
  letters: () => import("./pages/letters.js"),
  doctor: () => import("./pages/doctor.js"),
  lab: () => import("./pages/lab.js"),
  security: () => import("./pages/security.js"),
  activity: () => import("./pages/activity.js"),
};

const VERDICTS = /** @type {Record<string, [string, string]>} */ ({
  healthy: ["good", "healthy"],
  attention: ["warn", "needs attention"],
  "no-quorum": ["bad", "no quorum"],
  unreachable: ["bad", "unreachable"],
});

function App() {
  const [error, setError] = useState(/** @type {any} */ (null));
  const start = async () => {
    setError(null);
    try {
      session.value = await get("/session");
      signedOut.value = null;
      follow();
      loadEvents().catch(() => {});
    } catch (why) {
      setError(why);
    }
  };
  useEffect(() => void start(), []);
  if (signedOut.value) return html`<${SignIn} mode=${signedOut.value.mode} onDone=${start} />`;
  if (error && !session.value) return html`<main class="alone"><${Failure} error=${error} again=${start} /></main>`;
  return html`<a class="skip" href="#main">Skip to the content</a>
    <${Top} /><${Side} /><${Content} />
    ${isHelpOpen.value && html`<${Help} />`}`;
}

function Top() {
  const cluster = overview.value?.cluster;
  const [kind, text] = link.value === "broken" ? ["bad", "console does not answer"] : (VERDICTS[cluster?.verdict] ?? ["", "connecting"]);
  return html`<header class="top">
    <a class="brand" href="/"><svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" /><path d="M22.5 11.2A8 8 0 1 0 22.5 20.800" /><circle cx="23.5" cy="16" r="2.4" /></svg><b>Chronik</b></a>
    <span class="cluster mono" title="Bootstrap address">${session.value?.bootstrap ?? ""}</span>
    <${Finder} />
    <a class="verdict ${kind}" href="/doctor" role="status"><span class="dot"></span><span>${text}</span></a>
    ${session.value?.allows_changes === false && html`<span class="badge readonly" title="Start the console with --allow-changes to change the cluster">read-only</span>`}
    <button class="quiet" onClick=${() => setZone()} title="Time zone of all times: local or UTC">${zoneName()}</button>
    <button class="quiet icon" onClick=${nextTheme} aria-label="Colours: ${theme.value}" title="Colours: ${theme.value}">${{ light: "☀", dark: "☾" }[theme.value] ?? "◐"}</button>
    <button class="quiet icon" onClick=${() => (isHelpOpen.value = true)} aria-label="Keyboard and help" title="Keyboard and help (?)">?</button>
  </header>`;
}

function setZone() {
  zone.value = zone.value === "UTC" ? "local" : "UTC";
  localStorage.setItem("chronik.zone", zone.value);
}

function Finder() {
  const [found, setFound] = useState(/** @type {any[]|null} */ (null));
  const [at, setAt] = useState(0);
  const timer = useRef(0);
  const box = /** @type {{current: HTMLInputElement|null}} */ (useRef(null));
  const ask = () => {
    clearTimeout(timer.current);
    const text = box.current?.value.trim() ?? "";
    if (!text) return setFound(null);
    timer.current = setTimeout(async () => {
      const answer = await get("/search", { q: text, limit: 12 }).catch(() => ({ found: [] }));
      setAt(0);
      setFound(answer.found);
    }, 120);
  };
  const leave = () => {
    setFound(null);
    if (box.current) box.current.value = "";
    box.current?.blur();
  };
  const key = (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const size = found?.length || 1;
      setAt((at + (event.key === "ArrowDown" ? 1 : size - 1)) % size);
    } else if (event.key === "Enter" && found?.[at]) {
      go(found[at].link);
      leave();
    } else if (event.key === "Escape") leave();
  };
  return html`<div class="finder" role="search">
    <input id="search" ref=${box} type="search" placeholder="Search topics, groups, nodes" aria-label="Search topics, groups and nodes" autocomplete="off"
      role="combobox" aria-expanded=${!!found} aria-controls="found" onInput=${ask} onKeyDown=${key} onBlur=${() => setTimeout(() => setFound(null), 150)} />
    <kbd aria-hidden="true">/</kbd>
    ${found && html`<div id="found" class="found" role="listbox">
      ${found.length === 0 && html`<p class="muted">Nothing has this name.</p>`}
      ${found.map((each, index) => html`<a href=${each.link} role="option" aria-selected=${index === at} onMouseDown=${(event) => event.preventDefault()} onClick=${leave}>
        <span class="mono">${each.name}</span><span class="muted">${each.kind}</span></a>`)}
    </div>`}
  </div>`;
}

function Side() {
  const here = place.value.parts[0] ?? "";
  const bar = /** @type {{current: HTMLElement|null}} */ (useRef(null));
  // On a phone the pages are in a row that scrolls.
  useEffect(() => bar.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [here]);
  const problems = overview.value?.attention?.filter((each) => each.severity === "problem").length;
  return html`<nav class="side" aria-label="Pages" ref=${bar}>
    ${PAGES.map(([path, name, key, icon]) => html`<a href=${path} aria-current=${path.slice(1) === here ? "page" : undefined} title="${name} (g ${key})">
      <svg viewBox="0 0 24 24" aria-hidden="true"><path d=${icon} /></svg><span>${name}</span>
      ${name === "Overview" && problems > 0 && html`<span class="count" aria-label="${problems} problems">${problems}</span>`}</a>`)}
    <p class="faint version">${session.value?.console && `Chronik ${session.value.console}`}</p>
  </nav>`;
}

function Content() {
  const name = place.value.parts[0] ?? "";
  const [page, setPage] = useState(/** @type {any} */ ({ name: null, view: null, error: null }));
  useEffect(() => {
    let isGone = false;
    const loading = MODULES[name]?.();
    loading?.then(
      (module) => isGone || setPage({ name, view: module.default, error: null }),
      () => isGone || setPage({ name, view: null, error: new ApiError(0, { message: "This page could not be loaded.", hint: "Is the console still running?" }) }),
    );
    return () => void (isGone = true);
  }, [name]);
  return html`<main id="main" tabindex="-1">
    ${!MODULES[name]
      ? html`<${Page} title="No such page" /><p>Nothing is at <code>${place.value.path}</code>. <a href="/">Go to the overview</a>.</p>`
      : page.error
        ? html`<${Failure} error=${page.error} />`
        : page.name === name && session.value
          ? html`<${page.view} key=${name} />`
          : html`<${Loading} />`}
  </main>`;
}

const KEYS = [
  ["/", "Search topics, groups and nodes"],
  ["f", "Filter the list of this page"],
  ["j  k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["Escape", "Close what is open"],
  ["?", "This help"],
];

function Help() {
  return html`<${Dialog} title="Keyboard" onClose=${() => (isHelpOpen.value = false)}>
    <dl class="keys">${KEYS.map(([key, text]) => html`<dt>${key.split("  ").map((each) => html`<kbd>${each}</kbd> `)}</dt><dd>${text}</dd>`)}
      ${PAGES.map(([, name, key]) => html`<dt><kbd>g</kbd> <kbd>${key}</kbd></dt><dd>${name}</dd>`)}</dl>
    <p class="muted">Every page is a link: its address holds what it shows. Every change shows the command that does the same.</p>
  <//>`;
}

/** @param {{mode: string, onDone: () => void}} props */
function SignIn({ mode, onDone }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [isBusy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const form = event.target;
    setBusy(true);
    try {
      await post("/session", { user: form.elements.user.value, password: form.elements.password.value });
      onDone();
    } catch (why) {
      setError(why);
    }
    setBusy(false);
  };
  if (mode !== "login")
    return html`<main class="alone"><h1>Signed out</h1><p>Open the address that <code>chronik console</code> printed; it holds a token that works once.
      To get another one, restart the console, or ask for a link in a browser that is signed in.</p></main>`;
  return html`<main class="alone"><h1>Sign in</h1><p class="muted">With name and password of a user of the brokers. You may do here what this user may do there.</p>
    <form onSubmit=${submit}><label class="field tall"><span>User</span><input name="user" autocomplete="username" required /></label>
      <label class="field tall"><span>Password</span><input name="password" type="password" autocomplete="current-password" required /></label>
      ${error && html`<${Failure} error=${error} />`}
      <button class="primary" disabled=${isBusy}>${isBusy ? "Signing in …" : "Sign in"}</button></form></main>`;
}

render(html`<${App} />`, /** @type {Element} */ (document.getElementById("app")));
