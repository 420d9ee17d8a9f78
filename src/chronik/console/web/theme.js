// @ts-check
/** Light, dark, or as the system says. */
import { effect, signal } from "./lib.js";

/** "light", "dark" or "system". */
export const theme = signal(localStorage.getItem("chronik.theme") ?? "system");

effect(() => {
  localStorage.setItem("chronik.theme", theme.value);
  document.documentElement.dataset.theme = theme.value;
});

const ORDER = ["system", "light", "dark"];
export const nextTheme = () => (theme.value = ORDER[(ORDER.indexOf(theme.value) + 1) % ORDER.length]);
