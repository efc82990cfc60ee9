// Files are sent from a page; the first of them is previewed before that.
"use strict";

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
  const proposed = new Map();
  let looks = 0;

  const chosen = async (found) => {
    files = [...found];
    forget();
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

  // What a preview proposes stands in the fields of the form, where it can be changed.
  const field = (name) => form.querySelector(`[name="${name}"]`);
  const valueOf = (each) => (each.type === "checkbox" ? (each.checked ? "true" : "") : each.value);
  const fill = (name, value) => {
    const each = field(name);
    if (!each) return;
    if (each.type === "checkbox") each.checked = value === "true";
    else each.value = value;
    proposed.set(name, valueOf(each));
    each.closest("details").open = true;
  };

  // For another file or resource, what was proposed for the one before means nothing.
  const forget = () => {
    for (const [name, value] of proposed) if (valueOf(field(name)) === value) fill(name, "");
    proposed.clear();
  };

  // The lines of a field are a list, unless they are JSON already.
  const listed = (text) => {
    try {
      if (/^[[{]/.test(text)) return JSON.parse(text) && text;
    } catch {
      // Lines may begin like JSON, too.
    }
    return JSON.stringify(text.split(/\r?\n/).filter((each) => each.trim()));
  };

  const options = () => {
    const given = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      if (typeof value !== "string" || !value.trim() || name === "token") continue;
      given.set(name, field(name).matches("textarea") ? listed(value.trim()) : value);
    }
    return given;
  };

  // Whoever corrects one column decides for all columns which field goes there.
  const corrected = () => {
    const goes = fieldset().filter((each) => each.value).map((each) => [each.dataset.column, each.value]);
    const taken = new Set(goes.map(([, title]) => title));
    const titles = [...fieldset()[0].options].map((each) => each.value).filter(Boolean);
    fill("map", JSON.stringify(Object.fromEntries(goes)));
    fill("ignore", JSON.stringify([...new Set(titles)].filter((each) => !taken.has(each))));
    fill("ignore_extra", "");
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
    const remedy = preview.querySelector("[data-remedy]");
    for (const [name, value] of Object.entries(JSON.parse(remedy?.dataset.remedy ?? "{}"))) fill(name, value);
    if (at) preview.querySelector(`[data-column="${CSS.escape(at)}"]`)?.focus();
    if (!answer.ok) {
      const words = document.createElement("p");
      words.className = "note bad";
      words.textContent = "There is no preview of this file. It can be sent all the same.";
      preview.append(words);
    }
  };

  // An archive, a workbook or a table tells at its end what is in it, so its beginning is not enough.
  const isArchive = async (file) => /^(PK|PAR1|ARROW1)/.test(await file.slice(0, 6).text());

  chooser.addEventListener("change", () => chosen(chooser.files));
  form.addEventListener("change", (event) => {
    if (event.target === chooser) return;
    if (event.target.matches("[data-column]")) corrected();
    if (event.target.name === "resource") forget();
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
