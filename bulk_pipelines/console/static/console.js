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
    // What can be done and had, now that the job is over, stands on the page when it is loaded again.
    if (document.getElementById("live")) await htmx.ajax("GET", location.href, { target: "#main", select: "#main", swap: "outerHTML" });
  });
  source.addEventListener("error", () => {
    clearTimeout(silence);
    if (source.readyState === EventSource.CLOSED) silence = setTimeout(comeBack, 1000);
    else silence = setTimeout(() => says(true), 1500);
  });
}

// An answer that is no stream: the session is over, the job is gone, or the server cannot do it now.
async function comeBack() {
  try {
    const answer = await fetch(location.href, { redirect: "manual" });
    if (answer.type === "opaqueredirect" || [401, 403, 404].includes(answer.status)) return location.reload();
    if (answer.ok) return listen();
  } catch {
    // It does not answer at all.
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
    // What was drawn of the past stays, where the news know nothing of it.
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

// Keys: / looks for text, j and k go from row to row, ? tells them.
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

// A form that is sent once is not sent twice by a second click.
document.addEventListener("submit", (event) => {
  if (event.target.method !== "post") return;
  const button = event.submitter;
  setTimeout(() => { if (button) button.disabled = true; });
  setTimeout(() => { if (button) button.disabled = false; }, 10000);
});

// Files are sent by resumable uploads: what has arrived is not sent again.
const PIECE = 8 << 20;
const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

async function told(answer) {
  try {
    return (await answer.json()).detail;
  } catch {
    return `the server answers ${answer.status}`;
  }
}

async function ask(place, method, headers, body) {
  const answer = await fetch(place, { method, body, headers: { "X-CSRF-Token": token, ...headers } });
  if (answer.status === 401) location.reload();
  return answer;
}

// Sends a piece, and tells how much of it is on its way.
function put(place, headers, piece, sent) {
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open("PATCH", place);
    for (const [name, value] of Object.entries({ "X-CSRF-Token": token, ...headers })) request.setRequestHeader(name, value);
    request.responseType = "text";
    request.upload.onprogress = (event) => sent(event.loaded);
    request.onerror = () => fail(new TypeError("the line broke off"));
    request.onload = () => done(new Response(request.status === 204 ? null : request.responseText, { status: request.status }));
    request.send(piece);
  });
}

class Upload {
  constructor(place, file, options, show) {
    this.place = place;
    this.file = file;
    this.options = options;
    this.show = show;
    this.mark = `upload ${place} ${file.name} ${file.size} ${file.lastModified} ${options}`;
  }

  // Sends the whole file, however often the line breaks off, and returns the job.
  async run() {
    let place = sessionStorage.getItem(this.mark);
    for (let tries = 0; ; ) {
      try {
        place ??= await this.begin();
        sessionStorage.setItem(this.mark, place);
        const offset = await this.arrived(place);
        if (offset === null) {
          place = null;
          continue;
        }
        const made = await this.send(place, offset);
        sessionStorage.removeItem(this.mark);
        return made;
      } catch (error) {
        if (error.final) throw error;
        tries += 1;
        this.show(null, `the line broke off, trying again (${tries})`);
        await pause(Math.min(2 ** tries, 15));
      }
    }
  }

  async begin() {
    const name = encodeURIComponent(this.file.name);
    const headers = { "Upload-Complete": "?0", "Content-Type": "application/octet-stream", "Content-Disposition": `attachment; filename*=UTF-8''${name}` };
    const answer = await ask(`${this.place}?${this.options}`, "POST", { ...headers, "Upload-Length": this.file.size }, new Blob());
    if (!answer.ok) throw await refused(answer);
    return new URL(answer.headers.get("location"), location.href).pathname;
  }

  async arrived(place) {
    const answer = await ask(place, "HEAD", {});
    if (answer.status === 404) {
      sessionStorage.removeItem(this.mark);
      return null;
    }
    if (!answer.ok) throw await refused(answer);
    return Number(answer.headers.get("upload-offset"));
  }

  async send(place, from) {
    for (let offset = from; ; ) {
      const piece = this.file.slice(offset, offset + PIECE);
      const last = offset + piece.size >= this.file.size;
      const whole = this.file.size || 1;
      const show = (sent) => this.show((offset + sent) / whole, last && sent >= piece.size ? "finishing" : "sending");
      show(0);
      const headers = { "Content-Type": "application/partial-upload", "Upload-Offset": offset, "Upload-Complete": last ? "?1" : "?0" };
      const answer = await put(place, headers, piece, show);
      if (answer.status === 401) location.reload();
      if (!answer.ok) throw await refused(answer);
      if (last) return answer.json();
      offset += piece.size;
    }
  }
}

async function refused(answer) {
  const error = new Error(await told(answer));
  error.final = answer.status < 500 && ![401, 408, 409, 429].includes(answer.status);
  return error;
}

const drop = document.querySelector("[data-drop]");
if (drop) {
  const chooser = drop.querySelector("input[type=file]");
  const list = document.querySelector("[data-uploads]");
  const form = drop.closest("form");
  const preview = document.querySelector("[data-preview]");
  const fieldset = () => [...form.querySelectorAll("select[data-column]")];
  let files = [];
  let mapping = null;
  let looks = 0;

  const chosen = async (found) => {
    files = [...found];
    mapping = null;
    list.replaceChildren(...files.map(line));
    form.querySelector("[type=submit]").disabled = !files.length;
    await look();
  };

  const line = (file) => {
    const item = document.createElement("li");
    const name = document.createElement("bdi");
    const state = document.createElement("span");
    const bar = document.createElement("progress");
    name.textContent = file.name;
    state.className = "small soft";
    state.setAttribute("role", "status");
    state.textContent = `${file.size.toLocaleString()} bytes`;
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute("aria-label", `${file.name} sent`);
    item.append(name, state, bar);
    item.show = (share, words) => {
      if (share !== null) bar.value = share;
      state.textContent = words;
    };
    return item;
  };

  const options = () => {
    const given = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      // What the preview proposes comes last, and stands.
      if (typeof value === "string" && value && name !== "token") given.set(name, value);
    }
    if (mapping) {
      given.delete("ignore_extra");
      for (const [name, value] of Object.entries(mapping)) given.set(name, JSON.stringify(value));
    }
    return given;
  };

  // Who corrects one column says for all of them which field goes there.
  const corrected = () => {
    const goes = fieldset().filter((each) => each.value).map((each) => [each.dataset.column, each.value]);
    const taken = new Set(goes.map(([, field]) => field));
    const fields = [...fieldset()[0].options].map((each) => each.value).filter(Boolean);
    mapping = { map: Object.fromEntries(goes), ignore: [...new Set(fields)].filter((each) => !taken.has(each)) };
  };

  // The beginning of the first file is looked at before anything is sent.
  const look = async () => {
    if (!preview) return;
    if (!files.length) return preview.replaceChildren();
    const number = ++looks;
    const [file] = files;
    const most = await isArchive(file) ? preview.dataset.whole : preview.dataset.preview;
    const head = file.slice(0, Number(most));
    const given = options();
    given.set("name", file.name);
    given.set("cut", String(head.size < file.size));
    const answer = await ask(`/console/new/import/preview?${given}`, "POST", { "Content-Type": "application/octet-stream" }, head);
    const text = answer.ok ? await answer.text() : "";
    if (number !== looks) return;
    const at = document.activeElement?.dataset?.column;
    preview.innerHTML = text;
    if (at) preview.querySelector(`[data-column="${CSS.escape(at)}"]`)?.focus();
    if (!answer.ok) {
      const words = document.createElement("p");
      words.className = "note bad";
      words.textContent = "The file cannot be looked at before it is sent.";
      preview.append(words);
    }
  };

  // What stands at the end of an archive, a workbook or a table says what is in it.
  const isArchive = async (file) => /^(PK|PAR1|ARROW1)/.test(await file.slice(0, 6).text());

  chooser.addEventListener("change", () => chosen(chooser.files));
  form.addEventListener("change", (event) => {
    if (event.target === chooser) return;
    if (event.target.matches("[data-column]")) corrected();
    if (event.target.name === "resource") mapping = null;
    look();
  });
  for (const name of ["dragenter", "dragover"]) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.add("over-it");
    });
  }
  document.addEventListener("dragleave", (event) => event.relatedTarget === null && drop.classList.remove("over-it"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over-it");
    chosen(event.dataTransfer.files);
  });

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    const made = [];
    form.querySelector("[type=submit]").disabled = true;
    for (const [index, file] of files.entries()) {
      const item = list.children[index];
      if (item.job) continue;
      try {
        const answer = await new Upload(form.dataset.upload, file, options().toString(), item.show).run();
        item.job = answer.job_id ?? answer.jobId;
        item.show(1, "sent");
        const link = document.createElement("a");
        link.href = `/console/jobs/${item.job}`;
        link.textContent = item.job;
        item.firstChild.after(link);
        made.push(item.job);
      } catch (error) {
        item.show(0, error.message);
        item.classList.add("wrong");
      }
    }
    form.querySelector("[type=submit]").disabled = false;
    if (made.length === 1 && files.length === 1) location.assign(`/console/jobs/${made[0]}`);
  });
}

// What stands in a form goes by this choice.
for (const each of document.querySelectorAll("select[data-reload]")) {
  each.addEventListener("change", () => location.assign(`?${new URLSearchParams([[each.name, each.value]])}`));
}

// Who mends a field of a record means to run the record again.
document.addEventListener("input", (event) => {
  if (!event.target.closest("[data-mend]") || event.target.type === "checkbox") return;
  const box = event.target.closest("tr").querySelector("input[name=line]");
  if (box && !box.checked) {
    box.checked = true;
    box.dispatchEvent(new Event("change", { bubbles: true }));
  }
});

// A file whose content goes into a field of the form.
for (const chooser of document.querySelectorAll("[data-into]")) {
  chooser.addEventListener("change", async () => {
    const [file] = chooser.files;
    if (file) document.getElementById(chooser.dataset.into).value = await file.text();
  });
}
