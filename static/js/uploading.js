/* Uploads with a bar each: files and folders that are chosen, or dropped anywhere on the page, go up one after the other,
   and what the server makes of each takes its place. Without this file the form is sent as it is. */
(() => {
  "use strict";

  const one = (selector, root = document) => root.querySelector(selector);
  const MB = 1024 ** 2;
  const waiting = [];
  let sending = null; // the upload that is on its way

  /** A file, or the files of a folder with where each lay in it, and its row in the queue. */
  class Upload {
    constructor(form, { name, files, paths = null }) {
      Object.assign(this, { form, files, paths });
      this.size = files.reduce((sum, file) => sum + file.size, 0);
      this.row = one("[data-upload-row]").content.firstElementChild.cloneNode(true);
      this.part("name").textContent = name;
      this.part("size").textContent = this.size < MB ? `${Math.ceil(this.size / 1024)} KB` : `${(this.size / MB).toFixed(1)} MB`;
      this.part("cancel").addEventListener("click", () => this.cancel());
      this.part("again").addEventListener("click", () => enqueue(this));
      one("[data-upload-queue]").append(this.row);
    }

    part(name) {
      return one(`[data-upload-${name}]`, this.row);
    }

    show(name, isShown = true) {
      this.part(name).hidden = !isShown;
    }

    get body() {
      const body = new FormData();
      body.set("csrfmiddlewaretoken", one("[name=csrfmiddlewaretoken]", this.form).value);
      for (const file of this.files) body.append(this.paths ? "folder" : "file", file);
      if (this.paths) body.set("paths", JSON.stringify(this.paths));
      return body;
    }

    wait() {
      for (const name of ["lost", "large", "full", "odd", "again"]) this.show(name, false);
      for (const name of ["waiting", "cancel", "bar"]) this.show(name);
      this.part("refused").replaceChildren();
      this.part("bar").value = 0;
    }

    send() {
      this.show("waiting", false);
      this.request = new XMLHttpRequest();
      this.request.open("POST", this.form.action);
      this.request.setRequestHeader("HX-Request", "true");
      this.request.upload.addEventListener("progress", ({ loaded, total }) => this.tell((100 * loaded) / total));
      this.request.addEventListener("load", () => this.end());
      this.request.addEventListener("error", () => this.fail("lost"));
      this.request.send(this.body);
    }

    /** The bar without a value moves to and fro: all has been sent, and the server still has to store it. */
    tell(percent) {
      if (percent < 100) this.part("bar").value = percent;
      else this.part("bar").removeAttribute("value");
    }

    end() {
      const { status, responseText } = this.request;
      const login = this.request.getResponseHeader("HX-Redirect");
      if (login) return location.assign(login);
      if (status === 200) this.arrive(responseText);
      else if (status === 422) this.refuse(responseText);
      else return this.fail(status === 413 ? "large" : "odd", reasonIn(responseText));
      next();
    }

    arrive(html) {
      this.row.outerHTML = html;
      htmx.process(one("[data-upload-queue]"));
      for (const card of document.querySelectorAll("[data-upload-queue] .import:not(.is-uploading)")) ended(card);
    }

    refuse(html) {
      this.stopShowing();
      this.part("refused").innerHTML = html;
    }

    fail(why, reason) {
      this.stopShowing();
      if (reason) this.part("refused").append(Object.assign(document.createElement("p"), { className: "notice error", textContent: reason }));
      else this.show(why);
      this.show("again", !["large", "full"].includes(why));
      next();
    }

    stopShowing() {
      for (const name of ["bar", "cancel", "waiting"]) this.show(name, false);
    }

    cancel() {
      this.request?.abort();
      this.row.remove();
      const place = waiting.indexOf(this);
      if (place >= 0) waiting.splice(place, 1);
      if (sending === this) next();
    }
  }

  function enqueue(upload) {
    upload.wait();
    waiting.push(upload);
    if (!sending) next();
  }

  function next() {
    sending = waiting.shift() ?? null;
    if (!sending) return;
    const { maxBytes, roomBytes = Infinity } = sending.form.dataset;
    if (sending.size > Number(maxBytes)) sending.fail("large");
    else if (sending.size > Number(roomBytes)) sending.fail("full");
    else sending.send();
  }

  addEventListener("beforeunload", (event) => {
    if (sending) event.preventDefault();
  });

  function take(form, files) {
    for (const file of files) enqueue(new Upload(form, { name: file.name, files: [file] }));
  }

  function takeFolder(form, found) {
    if (!found.length) return;
    const paths = found.map(({ path }) => path);
    enqueue(new Upload(form, { name: paths[0].split("/")[0], files: found.map(({ file }) => file), paths }));
  }

  /** All files below a folder that was dropped, with their paths from it on. */
  async function filesBelow(entry, path = entry.name) {
    if (entry.isFile) return [{ path, file: await new Promise((done, failed) => entry.file(done, failed)) }];
    const reader = entry.createReader(), found = [];
    for (;;) {
      const some = await new Promise((done, failed) => reader.readEntries(done, failed)); // at most a hundred at a time
      if (!some.length) return found;
      for (const below of some) found.push(...(await filesBelow(below, `${path}/${below.name}`)));
    }
  }

  document.addEventListener("convmemory:dropped", (event) => {
    const form = event.target;
    if (!form.matches("[data-upload-form]")) return;
    event.preventDefault();
    const entries = [...event.detail.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const folders = entries.filter((entry) => entry.isDirectory);
    const names = new Set(folders.map((entry) => entry.name));
    take(form, [...event.detail.files].filter((file) => !names.has(file.name)));
    for (const folder of folders) filesBelow(folder).then((found) => takeFolder(form, found));
  });

  function takeChosen(form) {
    const { file, folder } = form.elements;
    take(form, [...file.files]);
    takeFolder(form, [...(folder?.files ?? [])].map((chosen) => ({ path: chosen.webkitRelativePath, file: chosen })));
    form.reset();
  }

  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-upload-form] input[type=file]")) takeChosen(target.form);
  });

  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-upload-form]")) return;
    event.preventDefault();
    takeChosen(event.target);
  });

  /* Chosen before this file was there. */
  document.addEventListener("DOMContentLoaded", () => {
    const form = one("[data-upload-form]");
    if (form?.elements.file.files.length || form?.elements.folder?.files.length) takeChosen(form);
  });

  const KEY = "convmemory.imports"; // those that were still going on when they were last seen
  const LOOK_AGAIN_MS = 3000;
  const isGoingOn = (card) => card.hasAttribute("hx-get");

  function awaited() {
    try {
      return JSON.parse(localStorage.getItem(KEY)) ?? [];
    } catch {
      return []; // no storage: nothing is announced on other pages
    }
  }

  function keepAwaited(ids) {
    try {
      localStorage.setItem(KEY, JSON.stringify(ids));
    } catch {
      // as above
    }
  }

  /** An import that is shown; when it has ended, the list holds what came in. */
  function ended(card) {
    const others = awaited().filter((id) => id !== card.id);
    keepAwaited(isGoingOn(card) ? [...others, card.id] : others);
    if (!isGoingOn(card)) document.dispatchEvent(new Event("convmemory:changed"));
  }

  /** Says on whatever page is open that an import has ended. */
  async function announceEnds() {
    for (const id of awaited()) {
      if (document.getElementById(id)) continue; // its card says it
      const address = `/import/${id.replace("import-", "")}`;
      const response = await fetch(address, { headers: { "HX-Request": "true" } }).catch(() => null);
      if (!response || response.headers.has("HX-Redirect")) continue;
      const place = document.createElement("template");
      place.innerHTML = response.ok ? await response.text() : "";
      const card = one(".import", place.content);
      if (!card) keepAwaited(awaited().filter((other) => other !== id));
      if (!card || isGoingOn(card)) continue;
      ended(card);
      announce(one("h2", card).textContent, one(".tag", card)?.textContent.trim(), address);
    }
    if (awaited().length) setTimeout(announceEnds, LOOK_AGAIN_MS);
  }

  function announce(name, state, address) {
    const link = document.createElement("a");
    link.href = address;
    link.textContent = word("View");
    say([`${name}: ${state} `, link], 10_000);
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const card of document.querySelectorAll(".import[hx-get]")) ended(card);
    announceEnds();
  });

  document.addEventListener("htmx:load", ({ detail }) => {
    if (detail.elt.matches?.(".import")) ended(detail.elt);
  });

  /* The tray of a page without an upload form is closed; what is still going up stays in it. */
  document.addEventListener("click", ({ target }) => {
    if (!target.closest("[data-close-tray]")) return;
    for (const row of document.querySelectorAll("[data-drop-tray] .import:not(.is-uploading)")) row.remove();
  });

  document.addEventListener("click", (event) => {
    const box = one("#q");
    if (!event.target.closest("[data-focus-search]") || !box?.checkVisibility()) return;
    event.preventDefault();
    box.focus();
  });
})();
