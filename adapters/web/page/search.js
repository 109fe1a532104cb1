// The search in the header: jobs, clusters, slots, machines, users, groups and events.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { go, pathOf, urlOf, useAt } from "./router.js";

export function Search() {
  const [text, setText] = useState("");
  const [hits, setHits] = useState(null);
  const [chosen, setChosen] = useState(0);
  const at = useAt();
  useEffect(() => {
    setChosen(0);
    if (!text.trim()) { setHits(null); return undefined; }
    const control = new AbortController();
    const load = () => get("/overview/search", { text, at }, control.signal).then(setHits, () => control.signal.aborted || setHits([]));
    const timer = setTimeout(load, 120);
    return () => { clearTimeout(timer); control.abort(); };
  }, [text, at]);
  const open = (hit) => {
    go(urlOf(pathOf(hit.kind, hit.name)));
    setText("");
    document.getElementById("search").blur();
  };
  const press = (event) => {
    if (event.key === "ArrowDown") setChosen(Math.min(chosen + 1, (hits?.length ?? 1) - 1));
    else if (event.key === "ArrowUp") setChosen(Math.max(chosen - 1, 0));
    else if (event.key === "Enter" && hits?.[chosen]) open(hits[chosen]);
    else if (event.key === "Escape") { setText(""); event.target.blur(); } else return;
    event.preventDefault();
  };
  const isOpen = hits !== null;
  return html`<div class="search" role="search">
    <input id="search" type="search" role="combobox" aria-label="Search jobs, slots, users and events" placeholder="Search  /"
      aria-expanded=${isOpen} aria-controls="hits" aria-autocomplete="list" aria-activedescendant=${isOpen && hits.length ? `hit-${chosen}` : undefined}
      value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${press} onBlur=${() => setTimeout(() => setText(""), 200)} />
    ${isOpen && html`<ul id="hits" role="listbox" aria-label="Results">
      ${hits.length === 0 && html`<li class="quiet" role="option" aria-selected="false">Nothing has this name.</li>`}
      ${hits.map((hit, index) => html`<li key=${`${hit.kind} ${hit.name}`} id=${`hit-${index}`} role="option" aria-selected=${index === chosen}
        onMouseDown=${() => open(hit)}><span class="quiet">${hit.kind}</span> <b>${hit.name}</b> <span class="quiet">${hit.text}</span></li>`)}
    </ul>`}
  </div>`;
}
