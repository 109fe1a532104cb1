// Values that several components show. Setting one renders the components that use it.

import { useState, useEffect } from "./vendor/htm-preact.js";

export function store(value) {
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      if (next === value) return;
      value = next;
      for (const listener of [...listeners]) listener(value);
    },
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export function useStore(source) {
  const [value, setValue] = useState(source.get());
  useEffect(() => {
    setValue(source.get());
    return source.listen((next) => setValue(() => next));
  }, [source]);
  return value;
}

// A setting that this browser keeps. Browsers can forbid that, and then the setting lasts until the page is closed.
export function setting(name, initial) {
  let kept = null;
  try { kept = localStorage.getItem(`poolbook.${name}`); } catch { /* not allowed */ }
  const value = store(kept ?? initial);
  value.listen((next) => {
    try { localStorage.setItem(`poolbook.${name}`, next); } catch { /* not allowed */ }
  });
  return value;
}
