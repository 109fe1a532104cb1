// Times are in UTC, as in the sentences of `why`. The API has instants in microseconds; seconds where it says so.

export const number = (value) => (Number.isInteger(value) ? value : Math.round(value * 100) / 100).toLocaleString("en");
export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

const iso = (seconds) => new Date(seconds * 1000).toISOString();
export const moment = (seconds) => iso(seconds).slice(0, 19).replace("T", " ");
export const clock = (seconds) => iso(seconds).slice(11, 16);
export const atText = (seconds) => `${iso(seconds).slice(0, 19)}Z`;
export const secondsOf = (at) => Date.parse(at) / 1000;

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
export const day = (seconds) => `${new Date(seconds * 1000).getUTCDate()} ${MONTHS[new Date(seconds * 1000).getUTCMonth()]}`;

// A duration with its two largest units: "1 h 5 min".
export function duration(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const parts = [];
  let rest = Math.max(0, Math.round(seconds));
  for (const [size, name] of units) {
    if (rest >= size && parts.length < 2) parts.push(`${Math.floor(rest / size)} ${name}`);
    rest %= size;
  }
  return parts.join(" ") || "0 s";
}

// A time of day, with the date unless it is the same day as another time.
export const near = (seconds, other) => (day(seconds) === day(other) ? clock(seconds) : `${day(seconds)} ${clock(seconds)}`);
