// Actions on a thing. Each asks once: what will happen, and the command that does the same.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { caller, get, post } from "./api.js";
import { useStore } from "./store.js";

const LABELS = {
  hold: "Hold", release: "Release", remove: "Remove", vacate: "Vacate", suspend: "Suspend", continue: "Continue",
  priority: "Set priority", drain: "Drain", "cancel drain": "Cancel drain", "vacate slot": "Vacate", factor: "Set factor",
};
const WITH_REASON = new Set(["hold", "release", "remove", "vacate", "drain"]);
const VALUES = { priority: ["Priority among the user's jobs", "0"], factor: ["Priority factor", "1000"] };

export function Actions({ kind, name, version }) {
  const user = useStore(caller);
  const [actions, setActions] = useState([]);
  const [chosen, setChosen] = useState("");
  const [done, setDone] = useState("");
  useEffect(() => {
    if (!user?.may_change) return undefined;
    const control = new AbortController();
    get("/overview/actions", { kind, name }, control.signal).then(setActions, () => {});
    return () => control.abort();
  }, [kind, name, user, version]);
  if (!user?.may_change) return "";
  return html`<span class="actions">
    ${actions.map((action) => html`<button key=${action} type="button" onClick=${() => setChosen(action)}>${LABELS[action]}</button>`)}
    <span role="status">${done}</span>
    ${chosen && html`<${Confirmation} action=${chosen} kind=${kind} name=${name} user=${user.user}
      onClose=${(text) => { setChosen(""); setDone(text); }} />`}
  </span>`;
}

// The result of a command in a few words: the pool can reject the action for some of the jobs.
function outcome(answer) {
  if (!Array.isArray(answer)) return "Done.";
  const others = answer.filter((each) => each.result !== "done").map((each) => each.result);
  return others.length ? `Not done for all jobs: ${[...new Set(others)].join(", ")}.` : "Done.";
}

function Confirmation({ action, kind, name, user, onClose }) {
  const dialog = useRef(null);
  const [label, initial] = VALUES[action] ?? ["", ""];
  const [reason, setReason] = useState("");
  const [value, setValue] = useState(initial);
  const [effect, setEffect] = useState(null);
  const [error, setError] = useState("");
  useEffect(() => { dialog.current.showModal(); }, []);
  useEffect(() => {
    const control = new AbortController();
    const load = () => get("/overview/effect", { action, kind, name, value, reason }, control.signal)
      .then((answer) => { setEffect(answer); setError(""); }, (problem) => control.signal.aborted || setError(problem.message));
    const timer = setTimeout(load, effect ? 150 : 0);
    return () => { clearTimeout(timer); control.abort(); };
  }, [value, reason]);
  const confirm = async (event) => {
    event.preventDefault();
    try {
      onClose(outcome(await post(`/commands/${effect.request}`, effect.body)));
    } catch (problem) {
      setError(problem.message);
    }
  };
  return html`<dialog ref=${dialog} onClose=${() => onClose("")} aria-labelledby="question">
    <form onSubmit=${confirm}>
      <h2 id="question">${LABELS[action]} ${kind} ${name}?</h2>
      <p class="effect" aria-live="polite">${effect ? effect.sentence : "..."}</p>
      ${label && html`<label>${label} <input type="number" value=${value} onInput=${(event) => setValue(event.target.value)} /></label>`}
      ${WITH_REASON.has(action) && html`<label>Reason <input value=${reason} placeholder="optional" size="32" onInput=${(event) => setReason(event.target.value)} /></label>`}
      ${effect && html`<p class="quiet">On the command line: <code>${effect.command}</code></p>`}
      <p class="quiet">The log records this action under the name ${user}.</p>
      ${error && html`<p class="failure" role="alert">${error}</p>`}
      <p class="buttons"><button type="button" onClick=${() => dialog.current.close()}>Cancel</button>
        <button type="submit" class="main" disabled=${!effect || !!error}>${LABELS[action]}</button></p>
    </form>
  </dialog>`;
}
