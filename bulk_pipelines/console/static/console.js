// What pages of the console do beyond links and forms. Reading works without it.
"use strict";

const page = document.documentElement;
page.classList.add("js");
const token = document.querySelector("meta[name=token]")?.content ?? "";

// While the server does not answer, the page says so and goes on asking.
const lost = document.getElementById("lost");
function says(away) {
  if (lost) lost.hidden = !away;
}
document.addEventListener("htmx:sendError", () => says(true));
document.addEventListener("htmx:timeout", () => says(true));
document.addEventListener("htmx:responseError", (event) => says(event.detail.xhr.status >= 500));
document.addEventListener("htmx:afterOnLoad", () => says(false));

// Times are shown in the zone of whoever looks.
const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const recent = new Intl.DateTimeFormat(undefined, { ...clock, month: "short", day: "numeric" });
const old = new Intl.DateTimeFormat(undefined, { ...clock, year: "numeric", month: "short", day: "numeric" });
function localise(within) {
  for (const each of within.querySelectorAll("time[datetime]:not([data-local])")) {
    const moment = new Date(each.dateTime);
    each.textContent = (Date.now() - moment < 15e9 ? recent : old).format(moment);
    each.dataset.local = "";
  }
}
localise(document);
document.addEventListener("htmx:afterSettle", () => localise(document));

// News of the page: parts come from the server when something has changed, and take the place of those with the same id.
// A page that nobody sees listens to nothing, because browsers keep few connections to one server.
const MOST_WATCHED = 200;
let source = null;
let silence = 0;

function listen() {
  source?.close();
  clearTimeout(silence);
  source = null;
  const place = document.querySelector("[data-news]")?.dataset.news;
  if (!place || document.hidden) return;
  const open = [...document.querySelectorAll("[data-open]")].slice(0, MOST_WATCHED);
  const address = new URL(place, location.href);
  for (const each of open) address.searchParams.append("job", each.dataset.open);
  source = new EventSource(address);
  source.watched = open.length;
  source.addEventListener("open", () => {
    clearTimeout(silence);
    says(false);
  });
  source.addEventListener("parts", (event) => take(event.data));
  source.addEventListener("end", async () => {
    source.close();
    // The page is loaded again, because other things can be done and downloaded now that the job is over.
    if (document.getElementById("live")) await htmx.ajax("GET", location.href, { target: "#main", select: "#main", swap: "outerHTML" });
  });
  source.addEventListener("error", () => {
    clearTimeout(silence);
    if (source.readyState === EventSource.CLOSED) silence = setTimeout(comeBack, 1000);
    else silence = setTimeout(() => says(true), 1500);
  });
}

// The stream was refused: the session is over, the job is gone, or the server cannot answer now.
async function comeBack() {
  try {
    const answer = await fetch(location.href, { redirect: "manual" });
    if (answer.type === "opaqueredirect" || [401, 403, 404].includes(answer.status)) return location.reload();
    if (answer.ok) return listen();
  } catch {
    // The server does not answer at all.
  }
  says(true);
  silence = setTimeout(comeBack, 3000);
}

function take(text) {
  const made = document.createElement("template");
  made.innerHTML = text;
  for (const each of [...made.content.children]) {
    const part = each.localName === "template" ? each.content.firstElementChild : each;
    const old = document.getElementById(part.id);
    if (!old) continue;
    localise(part);
    if (part.isEqualNode(old)) continue;
    // The drawing of past speeds stays where the news bring none.
    const spark = old.querySelector(".beside svg");
    if (spark && !part.querySelector(".beside svg")) part.querySelector(".beside")?.prepend(spark);
    const links = "a[href], button";
    const place = [...old.querySelectorAll(links)].indexOf(document.activeElement);
    old.replaceWith(part);
    if (place >= 0) part.querySelectorAll(links)[place]?.focus({ preventScroll: true });
  }
}

document.addEventListener("visibilitychange", listen);
document.addEventListener("htmx:afterSettle", () => {
  if (source && Math.min(document.querySelectorAll("[data-open]").length, MOST_WATCHED) > source.watched) listen();
});
listen();

// The key / goes to the field of the search; j and k go from row to row.
const rows = () => [...document.querySelectorAll("tbody th a[href]")];
function step(by) {
  const links = rows();
  const now = links.indexOf(document.activeElement);
  links[Math.min(Math.max(now + by, 0), links.length - 1)]?.focus();
}
const typed = { "/": () => document.querySelector("[data-key='/']")?.focus(), j: () => step(1), k: () => step(-1) };
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const button = document.querySelector(`[data-key="${CSS.escape(event.key)}"]:not(input)`);
  const act = button ? () => button.click() : typed[event.key];
  // A key that is held down decides about one row, not about all that follow.
  if (!act || (button && event.repeat)) return;
  event.preventDefault();
  act();
});

// A box that checks all boxes of its form, and a form that says how many are checked.
document.addEventListener("change", (event) => {
  const form = event.target.form;
  if (!form) return;
  if (event.target.matches("[data-all]")) {
    for (const each of form.querySelectorAll(`input[name="${CSS.escape(event.target.dataset.all)}"]`)) each.checked = event.target.checked;
  }
  const counter = form.querySelector("[data-count]");
  if (counter) {
    const count = form.querySelectorAll(`input[name="${CSS.escape(counter.dataset.count)}"]:checked`).length;
    counter.textContent = count ? `${count.toLocaleString()} chosen` : "";
  }
});

// A second click does not send a form twice.
document.addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  const button = event.submitter;
  setTimeout(() => { if (button) button.disabled = true; });
  setTimeout(() => { if (button) button.disabled = false; }, 10000);
});

// The fields of these forms depend on the choice, so the page is loaded again.
for (const each of document.querySelectorAll("select[data-reload]")) {
  each.addEventListener("change", () => location.assign(`?${new URLSearchParams([[each.name, each.value]])}`));
}

// Whoever mends a field of a record wants to run it again, so its box is ticked.
document.addEventListener("input", (event) => {
  if (!event.target.closest("[data-mend]") || event.target.type === "checkbox") return;
  const box = event.target.closest("tr").querySelector("input[name=line]");
  if (box && !box.checked) {
    box.checked = true;
    box.dispatchEvent(new Event("change", { bubbles: true }));
  }
});

// The content of the chosen file goes into a field of the form.
for (const chooser of document.querySelectorAll("[data-into]")) {
  chooser.addEventListener("change", async () => {
    const [file] = chooser.files;
    if (file) document.getElementById(chooser.dataset.into).value = await file.text();
  });
}
