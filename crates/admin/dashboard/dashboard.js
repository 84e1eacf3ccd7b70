// The dashboard: one event a second from /v1/events, drawn as panels. All text that comes from hosts is set as text.
import { COLOURS, draw, short } from "./charts.js";

/** Seconds that the charts show. */
const POINTS = 120;
/** Tenants that have a colour and a place of their own in the charts. */
const DRAWN = 10;
/** Rows of the slowest IOs, and of the last changes. */
const SLOW = 15;
const CHANGES = 10;
/** Milliseconds between two questions of these panels. */
const REPEAT = 3000;
const WHYS = ["share", "limit", "device", "memory", "credit"];

const element = (id) => document.getElementById(id);
// By device: MB/s by tenant, the place of each tenant (its colour and number, which it keeps), latency.
const history = new Map();
let newest = 0;
let latest = null;
let paused = false;

function make(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

const sum = (object) => Object.values(object ?? {}).reduce((total, value) => total + value, 0);
// A host chooses its name, but not its kind: so no two tenants have the same key.
const label = (tenant) => (tenant.kind === "namespace" ? `${tenant.namespace} of ${tenant.subsystem}` : tenant.host);
const keyOf = (tenant) => `${tenant.kind} ${label(tenant)}`;
const find = (event, device) => event?.devices.find((it) => it.device === device);
const millis = (seconds) => (seconds === null || seconds === undefined ? "–" : `${short(seconds * 1000)} ms`);

/** The quantile of the slower of reads and writes in the last second. */
function quantile(histograms, which) {
  const all = Object.values(histograms ?? {}).map((it) => it[which]).filter((it) => it !== null && it !== undefined);
  return all.length > 0 ? Math.max(...all) : null;
}

/** Bandwidth and IOs of the last second. */
function rates({ per_second: added }) {
  return { mbs: sum(added?.bytes) / 1e6, iops: sum(added?.ios) };
}

/** The lowest place that no tenant has. */
function freePlace(places) {
  const taken = new Set(places.values());
  let place = 0;
  while (taken.has(place)) place += 1;
  return place;
}

function remember(event) {
  for (const device of event.devices) {
    const kept = history.get(device.device) ?? { lines: new Map(), places: new Map(), latency: { read: [], write: [] } };
    history.set(device.device, kept);
    const seen = new Set();
    for (const tenant of device.tenants) {
      const key = keyOf(tenant);
      seen.add(key);
      if (!kept.places.has(key)) kept.places.set(key, freePlace(kept.places));
      const line = kept.lines.get(key) ?? [];
      line.push(rates(tenant).mbs);
      kept.lines.set(key, line);
    }
    for (const [key, line] of kept.lines) {
      if (!seen.has(key)) line.push(0);
      if (line.length > POINTS) line.shift();
      if (!seen.has(key) && line.every((value) => value === 0)) {
        kept.lines.delete(key);
        kept.places.delete(key);
      }
    }
    for (const op of ["read", "write"]) {
      const line = kept.latency[op];
      line.push(device.io_seconds?.[op]?.p99_seconds * 1000);
      if (line.length > POINTS) line.shift();
    }
  }
}

function options(select, values, first) {
  const shown = [...select.options].map((option) => option.value);
  const wanted = [...(first === undefined ? [] : [""]), ...values];
  if (shown.length === wanted.length && shown.every((value, index) => value === wanted[index])) return;
  const chosen = select.value;
  select.replaceChildren(...wanted.map((value) => make("option", value === "" ? first : value, { value })));
  if (wanted.includes(chosen)) select.value = chosen;
}

function name(tenant, place) {
  const cell = make("td");
  if (place !== undefined) {
    const mark = make("span", String(place + 1), { class: "mark", "aria-hidden": "true" });
    mark.style.background = COLOURS[place % COLOURS.length];
    cell.append(mark);
  }
  const kind = make("small", tenant.kind === "namespace" ? "namespace " : "");
  cell.append(kind, document.createTextNode(label(tenant)));
  cell.title = keyOf(tenant);
  return cell;
}

function facts(list, pairs) {
  list.replaceChildren(...pairs.filter(([, value]) => value !== undefined).map(([term, value, style]) => {
    const pair = make("div");
    const told = make("dd", value);
    if (style) told.className = style;
    pair.append(make("dt", term), told);
    return pair;
  }));
}

function objective(tenant) {
  if (tenant.slo_kept === undefined) return make("td", "–");
  const kept = tenant.slo_kept === 1;
  return make("td", kept ? "✓ kept" : "✗ missed", { class: kept ? "good" : "bad" });
}

function show() {
  if (!latest) return;
  const event = latest;
  options(element("device"), event.devices.map((it) => it.device));
  const device = find(event, element("device").value) ?? event.devices[0];
  if (!device) return;
  const kept = history.get(device.device);
  const total = rates(device);
  options(element("tenant"), device.tenants.map(keyOf), "all");
  const only = element("tenant").value;
  const tenants = device.tenants.filter((it) => only === "" || keyOf(it) === only);
  const busy = device.busy === 1;
  const turn = device.turn_seconds ?? 0;
  facts(element("summary"), [
    ["bandwidth", `${short(total.mbs)} MB/s`], ["IOs", `${short(total.iops)} /s`],
    ["waiting, on the SSD", `${device.queued_ios}, ${device.in_flight_ios}`],
    ["hung IOs", String(device.hung_ios), device.hung_ios > 0 ? "bad" : ""],
    ["state", turn > 1 ? `hangs for ${short(turn)} s` : busy ? `slow: reads ×${device.busy_slowdown_ratio?.read}, writes ×${device.busy_slowdown_ratio?.write}` : "as usual", busy || turn > 1 ? "bad" : "good"],
    ["tenants", `${device.active_tenants ?? "–"} active of ${device.known_tenants}`],
    ["price of a written byte", device.write_cost_ratio === undefined ? undefined : `${short(device.write_cost_ratio)} × read`],
    ["fragmentation", device.fragmentation_ratio === undefined ? undefined : `${Math.round(device.fragmentation_ratio * 100)} %`],
    ["device time in flight", device.time_in_flight_bytes === undefined ? undefined : `${short(device.time_in_flight_bytes.in_flight)} of ${short(device.time_in_flight_bytes.limit)}B`],
    ["target rate", device.target_rate_bytes === undefined ? undefined : `${short(device.target_rate_bytes)}B/s`],
    ["errors", String(device.errors), device.errors > 0 ? "bad" : ""],
    ["memory", `${short(device.memory_bytes)}B`],
  ]);
  const place = (tenant) => kept.places.get(keyOf(tenant));
  const drawn = tenants.slice(0, DRAWN).sort((a, b) => place(a) - place(b));
  const series = drawn.map((tenant) => ({ values: kept.lines.get(keyOf(tenant)) ?? [], colour: COLOURS[place(tenant) % COLOURS.length] }));
  draw(element("bandwidth"), series, { points: POINTS, stacked: true });
  draw(element("latency"), [{ values: kept.latency.read, colour: COLOURS[0] }, { values: kept.latency.write, colour: COLOURS[1] }], { points: POINTS, stacked: false });
  element("tenants").tBodies[0].replaceChildren(...tenants.map((tenant) => {
    const { mbs, iops } = rates(tenant);
    const row = make("tr");
    const at = ["p50_seconds", "p99_seconds", "p999_seconds"].map((which) => make("td", millis(quantile(tenant.io_seconds, which))));
    row.append(name(tenant, place(tenant)), make("td", short(mbs)), make("td", short(iops)), ...at,
      make("td", short(tenant.credit_ios)), make("td", short(tenant.queued_ios)), objective(tenant));
    return row;
  }));
  const hidden = device.known_tenants - device.tenants.length;
  element("hidden").textContent = hidden > 0 ? `${hidden} more tenants are in the device's totals only.` : "";
  element("waits").tBodies[0].replaceChildren(...tenants.map((tenant) => {
    const row = make("tr");
    row.append(name(tenant, place(tenant)), ...WHYS.map((why) => {
      const part = Math.min(1, tenant.per_second?.wait_seconds?.[why] ?? 0);
      const cell = make("td", part >= 0.005 ? `${Math.round(part * 100)} %` : "·");
      cell.style.background = `rgba(var(--heat), ${(part * 0.75).toFixed(2)})`;
      return cell;
    }));
    return row;
  }));
  const slots = make("div", undefined, { class: "slots" });
  for (const tenant of tenants.slice(0, DRAWN)) {
    const { busy: used = tenant.in_flight_ios ?? 0, allotted = tenant.credit_ios ?? 0 } = tenant.slots ?? {};
    const meter = make("meter", undefined, { min: 0, max: Math.max(1, allotted), value: used, "aria-label": `${used} of ${allotted}` });
    slots.append(make("span", label(tenant), { title: keyOf(tenant) }), meter, make("span", `${used}/${allotted}`));
  }
  element("view").replaceChildren(slots);
  const refused = Object.entries(event.refused ?? {}).filter(([, count]) => count > 0);
  facts(element("doors"), [
    ["connections", String(event.connections)], ["not known yet", String(event.handshakes)], ["accepted", short(event.accepted)],
    ...refused.map(([reason, count]) => [`refused: ${reason}`, short(count), "bad"]),
  ]);
}

/** The slowest IOs of the chosen device and tenant, once every few seconds. */
async function showSlow() {
  const asked = new URLSearchParams();
  if (element("device").value) asked.set("device", element("device").value);
  const chosen = find(latest, element("device").value)?.tenants.find((it) => keyOf(it) === element("tenant").value);
  for (const field of ["host", "subsystem", "namespace"]) {
    if (chosen?.[field] !== undefined) asked.set(field, chosen[field]);
  }
  const answer = await fetch(`/v1/slow?${asked}`);
  if (!answer.ok) return;
  const { slow } = await answer.json();
  const at = (seconds) => make("td", seconds > 0 ? short(seconds * 1000) : "·");
  element("slow").tBodies[0].replaceChildren(...slow.slice(0, SLOW).map((io) => {
    const row = make("tr");
    const why = io.queued_for;
    row.append(name(io, history.get(io.device)?.places.get(keyOf(io))),
      make("td", `${io.op} ${short(io.bytes)}B`), make("td", `${short(io.ended_seconds_ago)} s ago`), at(io.total), at(io.memory),
      at(why.share), at(why.limit), at(why.device), at(why.credit), at(io.on_device));
    return row;
  }));
}

/** The last changes; the panel is hidden where they cannot be seen (the address of the metrics). */
async function showChanges() {
  const answer = await fetch("/v1/operations");
  element("changes-panel").hidden = !answer.ok;
  if (!answer.ok) return answer.status >= 500;
  const all = await answer.json();
  element("changes").tBodies[0].replaceChildren(...all.reverse().slice(0, CHANGES).map((change) => {
    const row = make("tr");
    const told = change.answer?.changes?.map((it) => it.text).join("; ") ?? change.answer?.pending ?? change.answer?.detail ?? "";
    row.append(make("td", new Date(change.at_seconds * 1000).toLocaleTimeString()), make("td", change.who), make("td", change.what),
      make("td", change.state, { class: change.state === "refused" ? "bad" : "" }), make("td", told));
    return row;
  }));
  return true;
}

/** Repeats a panel's question while the page can be seen; ends when the answer is that there is none. */
async function repeat(panel) {
  let goesOn = true;
  while (goesOn) {
    if (!paused && !document.hidden) {
      try { goesOn = (await panel()) ?? true; } catch { /* The target does not answer; the stream of events says so. */ }
    }
    await new Promise((resolve) => setTimeout(resolve, REPEAT));
  }
}

function say(text, isBad) {
  element("state").textContent = text;
  element("state").className = isBad ? "bad" : "";
}

const events = new EventSource("/v1/events");
events.onmessage = (message) => {
  const event = JSON.parse(message.data);
  // Another run of the target, or another clock.
  if (event.at_seconds < newest) history.clear();
  newest = event.at_seconds;
  remember(event);
  if (!paused) {
    latest = event;
    show();
    say(`version ${Object.keys(event.build_info)[0]}`, false);
  }
};
events.onerror = () => say("the target does not answer; trying again", true);
for (const id of ["device", "tenant"]) element(id).addEventListener("change", show);
window.addEventListener("resize", show);
element("pause").addEventListener("click", () => {
  paused = !paused;
  element("pause").setAttribute("aria-pressed", String(paused));
  element("pause").textContent = paused ? "Go on" : "Pause";
});
repeat(showSlow);
repeat(showChanges);
