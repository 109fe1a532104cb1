// The letter and colour of each state, the same everywhere. A test compares them with adapters/overview/records.py.
// The colours are Okabe and Ito's, which colour-blind people can distinguish.

export const SLOTS = {
  "Claimed/Busy": ["B", "#009E73"], "Claimed/Suspended": ["S", "#F0E442"], Claimed: ["C", "#56B4E9"],
  Preempting: ["P", "#D55E00"], Matched: ["M", "#0072B2"], Unclaimed: ["U", "#999999"], Owner: ["O", "#E69F00"],
  Drained: ["D", "#CC79A7"], Backfill: ["F", "#0072B2"],
};
export const JOBS = {
  completed: ["C", "#0072B2"], running: ["R", "#009E73"], suspended: ["S", "#F0E442"], idle: ["I", "#E69F00"],
  held: ["H", "#D55E00"], removed: ["X", "#999999"], unmaterialized: ["N", "#CC79A7"],
};
export const PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999"];

export const slotStyle = (state) => SLOTS[state] ?? SLOTS[state.split("/")[0]] ?? SLOTS.Unclaimed;

export function jobStyle(status) {
  const name = status.toLowerCase();
  return JOBS[name === "transferringoutput" ? "running" : name] ?? ["", "#999999"];
}

export const styleOf = (state) => (state.includes("/") ? slotStyle(state) : jobStyle(state));

// Black letters have enough contrast on all of the colours except blue.
export const inkOn = (colour) => (colour === "#0072B2" ? "#fff" : "#000");
