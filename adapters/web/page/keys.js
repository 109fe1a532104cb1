// Keys of the whole page. The list of keys has a switch, because single letters disturb some users.

import { useEffect } from "./vendor/htm-preact.js";
import { PLACES, go, urlOf } from "./router.js";
import { setting } from "./store.js";
import { show, step } from "./time.js";

export const shortcuts = setting("shortcuts", "on");

// Move the focus to the first link of the next or previous row.
function moveRow(direction) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return;
  const now = rows.findIndex((row) => row.contains(document.activeElement));
  const visible = rows.findIndex((row) => row.getBoundingClientRect().top > 0);
  const next = rows[now < 0 ? Math.max(0, visible) : Math.max(0, Math.min(rows.length - 1, now + direction))];
  const target = next.querySelector("a, summary, button") ?? next;
  if (target === next) next.tabIndex = -1;
  target.focus();
  next.scrollIntoView({ block: "nearest" });
}

const KEYS = {
  "/": () => document.getElementById("search").focus(),
  j: () => moveRow(1),
  k: () => moveRow(-1),
  n: () => show(Infinity),
  ",": () => step(-1),
  ".": () => step(1),
};

export function useKeys(help) {
  useEffect(() => {
    const press = (event) => {
      const { target, key } = event;
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
      if (key !== "?" && shortcuts.get() !== "on") return;
      const place = PLACES[Number(key) - 1];
      if (key === "?") help();
      else if (place) go(urlOf(place === "pool" ? "/" : `/${place}`));
      else if (KEYS[key]) KEYS[key]();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
