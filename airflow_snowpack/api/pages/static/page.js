// What the pages do beyond being read: refresh themselves, show times, filter while you type, and change things through the REST API.
//
// The server makes all markup. Regions marked data-live are updated to what the server returns, node by node, so that focus,
// selected text, opened details, scroll and whatever is being typed stay; dialogs and filters are outside of these regions.
// Nothing here writes markup from data: text goes in as text.

const body = document.body;
const root = body.dataset.root;
const find = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
document.documentElement.dataset.script = "yes";

// -- times: the rules of humanize.py, in Airflow's zone -------------------------------------------------------------------

let ahead = body.dataset.now ? Date.parse(body.dataset.now) - Date.now() : 0; // how far the server's clock is ahead of ours
let forms; // of a moment, in the zone that Airflow's pages show
setZone();

/** The zone that was chosen in Airflow, which keeps it in the browser's storage; without one, the browser's own, as Airflow does. */
function airflowZone() {
  try {
    const kept = localStorage.getItem("timezone");
    const name = kept && JSON.parse(kept);
    return name ? new Intl.DateTimeFormat("en-GB", { timeZone: name }).resolvedOptions().timeZone : undefined;
  } catch {
    return undefined; // no storage, or nothing that this browser knows
  }
}

function setZone() {
  const make = (options) => new Intl.DateTimeFormat("en-GB", { ...options, timeZone: airflowZone() });
  const day = { day: "numeric", month: "short" }, minute = { hour: "2-digit", minute: "2-digit" }, zone = { timeZoneName: "short" };
  forms = {
    day: make(day),
    minute: make({ ...day, ...minute }),
    hour: make(minute),
    until: make({ ...minute, ...zone }),
    clock: make({ ...day, ...minute, second: "2-digit", ...zone }),
    old: make({ ...day, year: "numeric", ...minute, ...zone }),
    exact: make({ dateStyle: "medium", timeStyle: "long" }),
  };
}

addEventListener("storage", (event) => {
  if (event.key !== null && event.key !== "timezone") return;
  setZone();
  for (const shown of all("[data-shown-at]")) delete shown.dataset.shownAt;
  showTimes();
});

/** The exact time, in UTC too unless that is the zone: logs and colleagues elsewhere have UTC. */
function exact(moment) {
  const text = forms.exact.format(moment);
  return forms.exact.resolvedOptions().timeZone === "UTC" ? text : `${text}\n${moment.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** Without the year, unless it is another one or far away. */
function clock(moment, seconds) {
  return (Math.abs(seconds) < 180 * 86400 ? forms.clock : forms.old).format(moment);
}

function duration(seconds) {
  if (seconds < 10) return `${Math.round(Math.max(seconds, 0) * 10) / 10} s`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  let rest = Math.round(seconds);
  const largest = units.findIndex(([, length]) => rest >= length);
  return units.slice(largest, largest + 2).flatMap(([unit, length]) => {
    const amount = Math.floor(rest / length);
    rest %= length;
    return amount ? [`${amount} ${unit}`] : [];
  }).join(" ");
}

function ago(seconds) {
  const away = Math.abs(seconds);
  if (away < 5) return "just now";
  const span = away < 60 ? `${Math.floor(away)} s` : away < 3600 ? `${Math.floor(away / 60)} min`
    : away < 2 * 86400 ? `${Math.floor(away / 3600)} h` : `${Math.floor(away / 86400)} d`;
  return seconds > 0 ? `${span} ago` : `in ${span}`;
}

function showTimes() {
  const now = Date.now() + ahead;
  for (const time of all("time[data-as]")) {
    const moment = new Date(time.dateTime);
    const seconds = (now - moment) / 1000;
    const text = {
      ago: () => ago(seconds),
      left: () => (seconds < 0 ? `${duration(-seconds)} left` : `ran out ${ago(seconds)}`),
      since: () => duration(seconds),
      clock: () => clock(moment, seconds),
    }[time.dataset.as]();
    if (time.textContent !== text) time.textContent = text;
    if (time.dataset.shownAt !== time.dateTime) {
      time.title = exact(moment);
      time.dataset.shownAt = time.dateTime;
    }
  }
  for (const label of all("[data-at]")) { // of a drawing
    if (label.dataset.shownAt === label.dataset.at + label.dataset.what) continue;
    const text = forms[label.dataset.as].format(new Date(label.dataset.at));
    label.textContent = label.dataset.what ? `${text}: ${label.dataset.what}` : text;
    label.dataset.shownAt = label.dataset.at + label.dataset.what;
  }
}

// -- refreshing ---------------------------------------------------------------------------------------------------------------

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.dataset.live || node.id || null : null);
const ours = { DETAILS: ["open"], INPUT: ["value", "checked"], BUTTON: ["disabled", "aria-busy"] }; // what the reader or the script sets

function bring(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) return;
  if (old.nodeName === "TIME" && old.dateTime === fresh.dateTime && old.dataset.as === fresh.dataset.as) return;
  const kept = ours[old.nodeName] ?? [];
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !kept.includes(name)) old.removeAttribute(name);
  for (const { name, value } of [...fresh.attributes]) {
    if (!kept.includes(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.nodeName === "INPUT" || old.nodeName === "SELECT" || old.nodeName === "TEXTAREA") return;
  bringChildren(old, fresh);
}

function bringChildren(old, fresh) {
  const wanted = new Set([...fresh.childNodes].map(keyOf).filter(Boolean));
  // First away with what is gone: then what stays need not be moved, and moving would take the focus from it.
  for (const child of [...old.children]) if (keyOf(child) && !wanted.has(keyOf(child))) child.remove();
  const keyed = new Map([...old.children].filter(keyOf).map((child) => [keyOf(child), child]));
  let place = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = keyOf(next);
    const same = key ? keyed.get(key) : place && !keyOf(place) && place.nodeName === next.nodeName ? place : null;
    if (!same || same.nodeName !== next.nodeName) {
      old.insertBefore(document.importNode(next, true), place);
      continue;
    }
    if (same === place) place = place.nextSibling;
    else old.insertBefore(same, place);
    bring(same, next);
  }
  while (place) {
    const after = place.nextSibling;
    place.remove();
    place = after;
  }
}

const liveButton = find("#live");
const trouble = find("#trouble");
let paused = false;
try {
  paused = sessionStorage.getItem("snowpack-paused") === "yes";
} catch { /* no storage: live */ }
let turn = 0; // only the newest answer counts
let failures = 0;
let failingSince = null;
let timer = null;

async function refresh() {
  const mine = ++turn;
  clearTimeout(timer);
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" }, credentials: "same-origin", signal: AbortSignal.timeout(20000) });
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    if (mine !== turn) return;
    if (!response.ok) throw new Error(statusText(response.status, fresh));
    if (!find("#main", fresh)) throw new Error("You are signed out. Reload the page to sign in.");
    if (find(".message")) return location.reload(); // this page was an error, and is none any more
    show(fresh);
    failures = 0;
    failingSince = null;
    trouble.hidden = true;
  } catch (problem) {
    if (mine !== turn) return;
    failures += 1;
    failingSince ??= new Date();
    const why = problem instanceof TypeError || problem.name === "TimeoutError" ? "The server does not respond." : problem.message;
    const text = `${why} This page is from ${forms.clock.format(failingSince)} and retries automatically.`;
    if (!find(".message")) {
      if (trouble.textContent !== text) trouble.textContent = text;
      trouble.hidden = false;
    }
  }
  schedule();
}

function statusText(status, page) {
  const message = find(".message h1", page)?.textContent;
  return message ? `${message} (${status}).` : `The server responded with status ${status}.`;
}

function show(fresh) {
  const focused = document.activeElement;
  if (fresh.body.dataset.now) ahead = Date.parse(fresh.body.dataset.now) - Date.now();
  document.title = fresh.title;
  body.dataset.every = fresh.body.dataset.every;
  for (const region of all("[data-live]")) {
    const next = find(`[data-live="${CSS.escape(region.dataset.live)}"]`, fresh);
    if (next && region.isConnected) bring(region, next);
  }
  if (document.activeElement !== focused && focused?.isConnected) focused.focus({ preventScroll: true });
  showTimes();
  showSelection();
}

function schedule() {
  clearTimeout(timer);
  if (paused || document.hidden) return;
  const every = Number(body.dataset.every || 5) * 1000;
  timer = setTimeout(refresh, Math.min(every * 2 ** Math.min(failures, 3), 30000));
}

function setPaused(value) {
  paused = value;
  try {
    sessionStorage.setItem("snowpack-paused", value ? "yes" : "no");
  } catch { /* only for this page then */ }
  showPaused();
  if (!paused) refresh();
  else clearTimeout(timer);
}

function showPaused() {
  if (!liveButton) return;
  liveButton.hidden = false;
  liveButton.setAttribute("aria-pressed", String(!paused));
  find(".live-text", liveButton).textContent = paused ? "Paused" : "Live";
}

// -- asking the API ----------------------------------------------------------------------------------------------------------

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function call(method, path, { data, text: written = data && JSON.stringify(data), headers } = {}) {
  let response;
  try {
    response = await fetch(root + path, {
      method,
      credentials: "same-origin",
      headers: { Accept: "application/json", "X-Snowpack-Page": "1", ...(written && { "Content-Type": "application/json" }), ...headers },
      body: written,
    });
  } catch {
    throw new Refused(0, "The server did not respond. The change may have been made: check before you retry.");
  }
  const text = await response.text();
  let answer = null;
  try {
    answer = text ? JSON.parse(text) : null;
  } catch { /* not JSON: the status has to do */ }
  if (response.ok) return answer;
  const detail = typeof answer?.detail === "string" ? answer.detail : `The server refused the request with status ${response.status}.`;
  throw new Refused(response.status, detail);
}

function go(path) {
  location.assign(root + path);
}

function toast(text, path = null) {
  const note = document.createElement("div");
  note.className = "toast";
  note.append(...withCode(text));
  if (path) {
    const link = document.createElement("a");
    link.href = root + path;
    link.textContent = "Open the job";
    note.append(" ", link);
  }
  find("#toasts").append(note);
  setTimeout(() => note.remove(), 8000);
}

function toastLater(text) {
  try {
    sessionStorage.setItem("snowpack-toast", text);
  } catch { /* no storage: no toast after the next page has loaded */ }
}

// -- the dialog that asks before anything is changed -------------------------------------------------------------------------

const confirm = find("#confirm");

let asking = 0; // the newest question; what an older one still does must not close or change it

/** Ask, then work. `work` gets {reason, forced} and gives a report to show, or nothing when the dialog can close. */
function ask({ title, text, go: goText, reason = false, mayForce = false, danger = false }, work) {
  const [goButton, force, report, why] = ["#confirm-go", "#confirm-force", "#confirm-report", "#confirm-reason"].map((id) => find(id));
  find("#confirm-title").textContent = title;
  find("#confirm-text").textContent = text;
  goButton.textContent = goText;
  goButton.classList.toggle("danger", danger);
  goButton.hidden = goButton.disabled = false;
  force.hidden = report.hidden = find("#confirm-progress").hidden = true;
  why.hidden = !reason;
  find("input", why).value = "";
  find("[data-close]", confirm).textContent = "Keep as it is";
  const mine = ++asking;
  const attempt = async (forced) => {
    goButton.disabled = force.disabled = true;
    try {
      const outcome = await work({ reason: find("input", why).value.trim(), forced });
      if (mine !== asking) return;
      if (!outcome) return confirm.close();
      showReport(report, outcome);
      goButton.hidden = true;
      find("[data-close]", confirm).textContent = "Close";
      find("[data-close]", confirm).focus();
    } catch (problem) {
      if (mine !== asking || !confirm.open) return toast(problem.message);
      showReport(report, { text: problem.message, refused: true });
      force.hidden = !(mayForce && problem.status === 409 && !forced);
    } finally {
      if (mine === asking) goButton.disabled = force.disabled = false;
    }
  };
  find("form", confirm).onsubmit = (event) => {
    event.preventDefault();
    attempt(false);
  };
  force.onclick = () => attempt(true);
  confirm.showModal();
  // Enter on a question that destroys something keeps it.
  (danger ? find("[data-close]", confirm) : reason ? find("input", why) : goButton).focus();
}

/** The nodes of a message: its `…` as code. */
function withCode(text) {
  return text.split(/`([^`]+)`/).map((part, at) => (at % 2 ? Object.assign(document.createElement("code"), { textContent: part }) : part));
}

function showReport(report, { text, lines = [], refused = false }) {
  report.replaceChildren(...withCode(text));
  report.classList.toggle("refused", refused);
  if (lines.length) {
    const list = document.createElement("ul");
    for (const line of lines) {
      const item = document.createElement("li");
      item.append(...withCode(line));
      list.append(item);
    }
    report.append(list);
  }
  report.hidden = false;
  report.tabIndex = 0; // it scrolls
  report.setAttribute("role", "alert");
}

function onButton(button) {
  const { method, url, title, confirm: text, go: goText, done, then, force, body: fixed } = button.dataset;
  const data = fixed ? JSON.parse(fixed) : undefined;
  const work = async ({ reason = "", forced = false } = {}) => {
    const path = forced ? url + (url.includes("?") ? "&" : "?") + force : url;
    const answer = await call(method, path, { data: data && { ...data, ...(reason && { reason }) } });
    if (answer?.released === false) throw new Refused(404, "No lock was released: it has expired, or it now belongs to another owner.");
    if ("openJob" in button.dataset) {
      toastLater(done);
      return go(`/ui/jobs/${answer.job_id}`);
    }
    if (then) {
      toastLater(done);
      return go(then);
    }
    toast(outcomeOf(answer) ?? done);
    refresh();
  };
  if (!text) return busy(button, work);
  ask({ title, text, go: goText, reason: "reason" in button.dataset, mayForce: Boolean(force), danger: method === "DELETE" || "destructive" in button.dataset || button.classList.contains("danger") }, work);
}

/** What a change of builds came to, where it is not what was hoped for. */
function outcomeOf(answer) {
  if (typeof answer?.problem === "string") return answer.problem;
  if (answer?.moved === false) return answer.reason;
  if (answer?.done === false) return "This takes a while and continues in the background.";
  if (answer?.failed) return `${answer.failed.toLocaleString("en")} deletions failed. The next cleanup retries them.`;
  return null;
}

async function busy(button, work) {
  button.disabled = true;
  button.setAttribute("aria-busy", "true");
  try {
    await work();
  } catch (problem) {
    toast(problem.message);
  } finally {
    button.disabled = false;
    button.removeAttribute("aria-busy");
  }
}

// -- selecting jobs, and what is done to many --------------------------------------------------------------------------------

const picked = new Map(); // by the id of a job: what can be done to it
let everything = false; // all that the filter shows, also on other pages
const verbs = {
  cancel: { do: "Cancel", done: "cancelled", one: (id) => ["POST", `/jobs/${id}/cancel`], note: "Jobs that have ended are left unchanged. A cancelled job cannot be resumed.", never: "Only pending and running jobs can be cancelled." },
  rerun: { do: "Re-run", done: "re-run", one: (id) => ["POST", `/jobs/${id}/rerun`], note: "Each job is submitted again with the same actions and options. Locked tables are skipped.", never: "Only jobs that have ended can be re-run." },
  delete: { do: "Delete", done: "deleted", one: (id) => ["DELETE", `/jobs/${id}`], note: "Pending and running jobs are kept. The audit trail keeps its entries.", never: "Only jobs that have ended can be deleted." },
};
const counted = (number) => `${number.toLocaleString("en")} job${number === 1 ? "" : "s"}`;

function showSelection() {
  const batch = find("#batch");
  if (!batch) return;
  const boxes = all("[data-pick]");
  for (const box of boxes) {
    if (picked.has(box.dataset.pick)) picked.set(box.dataset.pick, box.dataset.can);
    box.checked = everything || picked.has(box.dataset.pick);
    box.closest("tr").classList.toggle("picked", box.checked);
  }
  const here = boxes.filter((box) => box.checked).length;
  const pickAll = find("#pick-all");
  pickAll.checked = boxes.length > 0 && here === boxes.length;
  pickAll.indeterminate = here > 0 && here < boxes.length;
  for (const button of all("[data-batch]")) {
    const what = button.dataset.batch;
    button.disabled = everything ? !batch.dataset.can.split(" ").includes(what) : !pickedFor(what).length;
    button.title = button.disabled && (everything || picked.size) ? verbs[what].never : "";
  }
  const total = Number(batch.dataset.total);
  const scope = find("[data-batch-scope]", batch);
  const elsewhere = picked.size - boxes.filter((box) => picked.has(box.dataset.pick)).length;
  const text = everything ? `all ${howMany(batch)} selected`
    : picked.size ? `${picked.size.toLocaleString("en")} selected${elsewhere ? `, ${elsewhere} not on this page` : ""}` : "";
  const offers = [];
  if (!everything && total > boxes.length) offers.push(["all", `Select all ${howMany(batch)} ${batch.dataset.what}`]);
  if (everything || picked.size) offers.push(["none", "Clear"]);
  const shown = JSON.stringify([text, offers]);
  if (scope.dataset.shown === shown && scope.hasChildNodes()) return;
  scope.dataset.shown = shown;
  scope.replaceChildren(text, ...offers.flatMap(([what, label]) => [" ", Object.assign(document.createElement("button"), { type: "button", className: "link", textContent: label, onclick: () => pickEverything(what === "all") })]));
}

/** The selected jobs to which this can be done. */
function pickedFor(what) {
  return [...picked].filter(([, can]) => can.split(" ").includes(what)).map(([id]) => id);
}

function howMany(batch) {
  return Number(batch.dataset.total).toLocaleString("en") + (batch.dataset.capped === "yes" ? " or more" : "");
}

function pickEverything(value) {
  everything = value;
  picked.clear();
  showSelection();
}

function onPick(box) {
  if (everything) {
    everything = false; // from all to those of this page, without the one that was taken out
    for (const other of all("[data-pick]")) picked.set(other.dataset.pick, other.dataset.can);
  }
  for (const each of box.id === "pick-all" ? all("[data-pick]") : [box]) {
    if (box.checked) picked.set(each.dataset.pick, each.dataset.can);
    else picked.delete(each.dataset.pick);
  }
  showSelection();
}

/** Change the selected jobs, or these; a change of given jobs begins at once. */
function onBatch(what, chosen = null) {
  const batch = find("#batch");
  const verb = verbs[what];
  const ids = chosen ?? (everything ? null : pickedFor(what));
  const howOften = ids ? counted(ids.length) : `all ${howMany(batch)} jobs ${batch.dataset.what}`;
  const query = batch?.dataset.query;
  const total = ids ? ids.length : Number(batch.dataset.total);
  const bar = find("#confirm-progress");
  const state = { done: 0, refused: [], cursor: null, left: ids && [...ids] };
  ask({ danger: what !== "rerun", title: `${verb.do} ${howOften}?`, text: verb.note, go: `${verb.do} ${ids ? counted(total) : `all ${howMany(batch)}`}` }, async () => {
    bar.hidden = false;
    bar.max = total;
    const closed = new Promise((resolve) => confirm.addEventListener("close", () => resolve("closed"), { once: true }));
    let open = true;
    closed.then(() => { open = false; });
    try {
      const step = !ids ? () => batchStep(what, query, state) : () => oneByOne(verb, state);
      let more = true;
      while (more && open) {
        more = await step();
        bar.value = state.done + state.refused.length;
      }
    } catch (problem) {
      problem.message = `${problem.message} Until then ${counted(state.done)} ${verb.done}, ${state.refused.length} refused. Press the button again to continue.`;
      refresh();
      throw problem;
    }
    pickEverything(false);
    refresh();
    if (!open) return void toast(`Stopped: ${counted(state.done)} ${verb.done}, ${state.refused.length} refused.`);
    if (!state.refused.length) return void toast(`${counted(state.done)} ${verb.done}.`);
    return { text: `${counted(state.done)} ${verb.done}, ${state.refused.length.toLocaleString("en")} refused:`, lines: refusals(state.refused) };
  });
  if (chosen) find("#confirm-go").click();
}

async function batchStep(what, query, state) {
  const parameters = new URLSearchParams(query);
  if (state.cursor) parameters.set("cursor", state.cursor);
  const answer = await call("POST", `/jobs/batch/${what}?${parameters}`);
  state.done += answer.done;
  state.refused.push(...answer.refused);
  state.cursor = answer.next;
  return Boolean(answer.next);
}

async function oneByOne(verb, state) {
  const id = state.left[0];
  if (!id) return false;
  try {
    await call(...verb.one(id));
    state.done += 1;
  } catch (problem) {
    if (problem.status < 400 || problem.status >= 500) throw problem;
    state.refused.push({ job_id: id, detail: problem.message });
  }
  state.left.shift();
  return state.left.length > 0;
}

function refusals(refused) {
  const shown = refused.slice(0, 50).map((each) => each.detail);
  if (refused.length > shown.length) shown.push(`and ${(refused.length - shown.length).toLocaleString("en")} more`);
  return shown;
}

// -- maintaining a table -----------------------------------------------------------------------------------------------------

const maintain = find("#maintain");
const request = { text: null, key: null };

function tablePath(table) {
  const dot = table.lastIndexOf(".");
  return `/tables/${encodeURIComponent(table.slice(0, dot))}/${encodeURIComponent(table.slice(dot + 1))}`;
}

/**
 * Submit; the same request again carries the same key, so a lost answer does not become a second job.
 * `options` are sent as they were written: a number of 64 bits, such as the id of a snapshot, is no number of this language.
 */
async function submit(table, data, options = "") {
  const text = `${JSON.stringify(data).slice(0, -1)}${options && `,"options":${options}`}}`;
  if (request.text !== table + text) {
    request.text = table + text;
    request.key = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  }
  const job = await call("POST", `${tablePath(table)}/maintenance`, { text, headers: { "Idempotency-Key": request.key } });
  request.text = null;
  toastLater(data.dry_run ? "Dry run finished; nothing was changed." : "Submitted.");
  go(`/ui/jobs/${job.job_id}`);
}

/** With the options, the priority and the kind of a job that is edited, if any. */
function openMaintain({ maintain: table, actions, locked, options = "", priority = "", dry = "yes" }) {
  const form = find("form", maintain);
  form.reset();
  find("[data-table]", maintain).textContent = table;
  const chosen = actions.split(" "), boxes = all("[name=actions]", form);
  for (const box of boxes) box.checked = chosen.includes(box.value);
  const given = find("[name=options]", form);
  given.value = options;
  given.rows = Math.min(options.split("\n").length + 1, 12);
  find("[name=priority]", form).value = priority;
  find("[name=dry_run]", form).checked = dry === "yes";
  const gone = chosen.filter((action) => !boxes.some((box) => box.value === action));
  const note = find("#maintain-note");
  note.textContent = [
    locked && `The table is locked by ${locked}. Until the lock is released, only a dry run is possible.`,
    gone.length && `This installation does not have ${gone.join(", ")}, which the job ran.`,
  ].filter(Boolean).join(" ");
  note.hidden = !note.textContent;
  find(".report", maintain).hidden = true;
  showKind();
  maintain.showModal();
  showHealth(table);
}

function showKind() {
  const dry = find("[name=dry_run]", maintain).checked;
  find("[type=submit]", maintain).textContent = dry ? "Preview" : "Maintain";
}

async function showHealth(table) {
  const list = find("#health");
  list.hidden = true;
  const names = { data_files: "Data files", small_files: "Small files", delete_files: "Delete files", snapshots: "Snapshots" };
  try {
    const { health } = await call("GET", tablePath(table));
    if (!health || find("[data-table]", maintain).textContent !== table) return;
    list.replaceChildren(...Object.entries(names).filter(([name]) => typeof health[name] === "number").map(([name, label]) => {
      const pair = document.createElement("div");
      pair.append(Object.assign(document.createElement("dt"), { textContent: label }), Object.assign(document.createElement("dd"), { textContent: health[name].toLocaleString("en") }));
      return pair;
    }));
    list.hidden = !list.hasChildNodes();
  } catch { /* the catalog does not respond: maintenance can be requested without the numbers */ }
}

function isObject(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value);
  } catch {
    return false;
  }
}

maintain?.addEventListener("change", showKind);
maintain?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const report = find(".report", maintain);
  const actions = all("[name=actions]:checked", form).map((box) => box.value);
  if (!actions.length) return showReport(report, { text: "Choose at least one action.", refused: true });
  const [where, priority, options] = ["where", "priority", "options"].map((name) => find(`[name=${name}]`, form).value.trim());
  if (priority && !/^[+-]?\d+$/.test(priority)) return showReport(report, { text: `Priority ${priority} is not a whole number.`, refused: true });
  if (options && !isObject(options)) return showReport(report, { text: 'The options are not a JSON object, such as `{"expire_snapshots": {"retain_last": 10}}`.', refused: true });
  if (where && options && Object.values(JSON.parse(options)).some((given) => given?.where !== undefined)) {
    // The options override it, without an error.
    return showReport(report, { text: "The options have a `where` of their own. Change it there, or remove it from them.", refused: true });
  }
  const [dry_run, only_if_needed] = ["dry_run", "only_if_needed"].map((name) => find(`[name=${name}]`, form).checked);
  const data = { actions, dry_run, only_if_needed, ...(where && { where }), ...(priority && { priority: Number(priority) }) };
  const button = find("[type=submit]", form);
  button.disabled = true;
  try {
    await submit(find("[data-table]", maintain).textContent, data, options);
  } catch (problem) {
    showReport(report, { text: problem.message, refused: true });
  } finally {
    button.disabled = false;
  }
});

// -- filters whose state is the address ---------------------------------------------------------------------------------------

const filter = find("[data-filter]");
let typing = null;

function applyFilter() {
  clearTimeout(typing);
  const query = new URLSearchParams([...new FormData(filter)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));
  const address = filter.getAttribute("action") + (query.size ? `?${query}` : "");
  if (address === location.pathname + location.search) return;
  history.replaceState(null, "", address);
  notifyAirflow();
  picked.clear();
  everything = false;
  refresh();
}

filter?.addEventListener("input", ({ target, inputType }) => {
  clearTimeout(typing);
  if (target.type === "search") typing = setTimeout(applyFilter, 250);
  else if (target.type !== "text" || inputType === "insertReplacementText") applyFilter(); // half a table's name is no name
});
filter?.addEventListener("change", applyFilter);
filter?.addEventListener("submit", (event) => {
  event.preventDefault();
  applyFilter();
});

// -- inside of Airflow --------------------------------------------------------------------------------------------------------

/** Airflow writes the frame's address into its own when the frame has loaded; a filter changes the address without a load. */
function notifyAirflow() {
  try {
    window.frameElement?.dispatchEvent(new Event("load"));
  } catch { /* framed by another origin */ }
}

/** The frame is sandboxed without navigation of the top, so Airflow's own document has to follow the link. */
function followOutside(event, link) {
  if (window.parent === window) return;
  try {
    const outside = window.parent.document.createElement("a");
    outside.href = link.href;
    event.preventDefault();
    outside.click();
  } catch { /* framed by another origin: the browser decides */ }
}

// -- clicks and keys ----------------------------------------------------------------------------------------------------------

async function copy(button) {
  const text = find(`#${CSS.escape(button.dataset.copy)}`).textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no secure context
    const area = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  toast("Copied.");
}

document.addEventListener("click", (event) => {
  const target = event.target.closest("button, a, input");
  if (!target) return;
  const has = target.dataset;
  if (target.matches("a[target=_top]")) followOutside(event, target);
  else if ("close" in has) target.closest("dialog").close();
  else if ("copy" in has) copy(target);
  else if ("batch" in has) onBatch(has.batch);
  else if ("pick" in has || target.id === "pick-all") onPick(target);
  else if ("maintain" in has) openMaintain(has);
  else if ("rerun" in has) onBatch("rerun", has.rerun.split(" "));
  else if ("dryRun" in has) busy(target, () => submit(has.dryRun, { actions: all("[name=actions]", maintain).map((box) => box.value), dry_run: true }));
  else if ("method" in has) onButton(target);
  else if (target === liveButton) setPaused(!paused);
  else if (target.id === "keys") find("#help").showModal();
  else if (target.id === "theme") nextTheme(target);
});

const places = Object.fromEntries(all("#help [data-place]").map((place) => [place.dataset.place, place.dataset.address]));
let waitingForPlace = false;

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || find("dialog[open]")) return;
  if (event.target.matches("input:not([type=checkbox], [type=radio]), select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (waitingForPlace && places[event.key]) return go(places[event.key]);
  waitingForPlace = event.key === "g";
  const keys = {
    "/": () => find("[data-search]")?.select() ?? find("[data-search]")?.focus(),
    "?": () => find("#help")?.showModal(),
    r: refresh,
    p: () => setPaused(!paused),
    j: () => moveRow(1),
    k: () => moveRow(-1),
    x: () => document.activeElement.closest("tr")?.querySelector("[data-pick]")?.click(),
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});

function moveRow(by) {
  const links = all("[data-row]");
  const here = links.indexOf(document.activeElement.closest("tr")?.querySelector("[data-row]"));
  links[here < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(here + by, 0), links.length - 1)]?.focus();
}

function nextTheme(button) {
  const next = { system: "light", light: "dark", dark: "system" }[localStorage.getItem("theme") ?? "system"] ?? "light";
  localStorage.setItem("theme", next);
  dispatchEvent(new Event("snowpack-theme"));
  button.textContent = `Theme: ${next}`;
}

// -- begin -----------------------------------------------------------------------------------------------------------------------

document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : paused || refresh()));
addEventListener("online", () => paused || refresh());
for (const id of ["#keys", ...(document.documentElement.dataset.framed ? [] : ["#theme"])]) if (find(id)) find(id).hidden = false;
try {
  const shown = sessionStorage.getItem("snowpack-toast");
  if (shown) toast(shown);
  sessionStorage.removeItem("snowpack-toast");
} catch { /* no storage, no toast */ }
// In a wide drawing of lineage, the requested table.
find(".lineage [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
showTimes();
showSelection();
showPaused();
setInterval(showTimes, 1000);
schedule();
