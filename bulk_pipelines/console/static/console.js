// What pages of the console do beyond links and forms. Reading works without it.
"use strict";

const page = document.documentElement;
page.classList.add("js");
const token = document.querySelector("meta[name=token]")?.content ?? "";

// Requests of htmx bear the token of this browser's forms.
document.addEventListener("htmx:configRequest", (event) => {
  event.detail.headers["X-CSRF-Token"] = token;
});

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

class Upload {
  constructor(file, options, show) {
    this.file = file;
    this.options = options;
    this.show = show;
    this.mark = `upload ${file.name} ${file.size} ${file.lastModified} ${options}`;
  }

  // Sends the whole file, however often the line breaks off, and returns the import.
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
    const answer = await ask(`/v1/imports?${this.options}`, "POST", { ...headers, "Upload-Length": this.file.size }, new Blob());
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
      this.show(this.file.size ? offset / this.file.size : 0, last ? "finishing" : "sending");
      const headers = { "Content-Type": "application/partial-upload", "Upload-Offset": offset, "Upload-Complete": last ? "?1" : "?0" };
      const answer = await ask(place, "PATCH", headers, piece);
      if (!answer.ok) throw await refused(answer);
      if (last) return answer.json();
      offset += piece.size;
    }
  }
}

// Rows to be processed are sent in one piece; a line that breaks off leaves nothing behind, and it is sent anew.
function sendWhole(place, file, options, show) {
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open("POST", `${place}?${options}`);
    request.setRequestHeader("X-CSRF-Token", token);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.setRequestHeader("Content-Disposition", `attachment; filename*=UTF-8''${encodeURIComponent(file.name)}`);
    request.responseType = "json";
    request.upload.onprogress = (event) => show(event.loaded / (event.total || 1), "sending");
    request.onerror = () => fail(new Error("the line broke off: start again"));
    request.onload = () => {
      if (request.status < 300) return done(request.response);
      fail(new Error(request.response?.detail ?? `the server answers ${request.status}`));
    };
    request.send(file);
  });
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
  let files = [];

  const chosen = async (found) => {
    files = [...found];
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
    return given;
  };

  // The beginning of the first file is looked at before anything is sent.
  const look = async () => {
    if (!preview) return;
    if (!files.length) return preview.replaceChildren();
    const head = files[0].slice(0, Number(preview.dataset.preview));
    const given = options();
    given.set("name", files[0].name);
    given.set("cut", String(head.size < files[0].size));
    const answer = await ask(`/console/new/import/preview?${given}`, "POST", { "Content-Type": "application/octet-stream" }, head);
    preview.innerHTML = answer.ok ? await answer.text() : "";
    if (!answer.ok) {
      const words = document.createElement("p");
      words.className = "note bad";
      words.textContent = "The file cannot be looked at before it is sent.";
      preview.append(words);
    }
  };

  chooser.addEventListener("change", () => chosen(chooser.files));
  form.addEventListener("change", (event) => event.target !== chooser && look());
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
        const place = form.dataset.upload;
        const answer = place ? await sendWhole(place, file, options(), item.show) : await new Upload(file, options().toString(), item.show).run();
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
