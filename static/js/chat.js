/* The composer with JavaScript: the reply appears as it is written. Without this file the form waits for it.
   The server renders what the model says, block by block, with the rules of all pages. */

import { draftOf, forget } from "./drafts.js";

const one = (selector, root = document) => root.querySelector(selector);
const CITE = /"cite": "\[(\d{1,4})\]\((\/(?:conversations|documents)\/\d[^\s"()\\]{0,100})\)"/g;

/** The events of a stream, as {name, data}. */
export async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = parse(block);
      if (event) yield event;
    }
  }
}

function parse(block) {
  const name = /^event: (.+)$/m.exec(block)?.[1];
  const data = /^data: (.+)$/m.exec(block)?.[1];
  return name && data ? { name, data: JSON.parse(data) } : null;
}

function make(tag, className, text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

function icon(name) {
  const svg = one(".icon-logo").cloneNode(true);
  svg.setAttribute("class", `icon icon-${name}`);
  const use = one("use", svg);
  use.setAttribute("href", use.getAttribute("href").replace("#logo", `#${name}`));
  return svg;
}

const RENDER_PAUSE_MS = 150;
const MIN_RENDERED = 1000; // characters of complete blocks that are rendered for good

/** Where the last block begins that may still change: after a blank line outside of code, before a line that neither is
    indented nor continues a list. */
function endOfBlocks(text) {
  let fence = "", at = 0, end = 0, isAfterBlank = false;
  for (const line of text.split("\n")) {
    const mark = /^\s{0,3}(`{3,}|~{3,})/.exec(line)?.[1] ?? "";
    if (isAfterBlank && !fence && /^[^\s\-*+\d]/.test(line)) end = at;
    if (mark && !fence) fence = mark;
    else if (mark.startsWith(fence)) fence = "";
    isAfterBlank = !line.trim();
    at += line.length + 1;
  }
  return end;
}

/** A message in the making. */
class Draft {
  constructor(kind, speaker) {
    this.sources = new Map(); // the addresses of what can be cited, by number
    this.element = make("article", `message is-${kind} is-headed is-draft`);
    const head = make("div", "message-head");
    head.append(make("span", "speaker", speaker));
    this.element.append(head);
    this.last = null;
  }

  /** Adds to the part of this kind if it is the last one, else begins one. */
  say(kind, text) {
    if (this.last?.kind !== kind) {
      const body = kind === "thinking" ? this.fold("thought", word("Thinking"), "thinking") : make("div", "part prose");
      if (kind !== "thinking") this.element.append(body);
      this.last = { kind, body, text: "", done: 0 };
    }
    this.last.text += text;
    if (kind === "thinking") this.last.body.append(text);
    else this.draw(this.last);
  }

  /** Shows the text as the server renders it, one request at a time; until the first answer as it is. Blocks that are
      complete are rendered once, the last ones again as they grow. */
  async draw(part) {
    part.isBehind = true;
    part.tail ??= part.body.appendChild(make("div", "draft-tail"));
    if (part.isRendering) return;
    if (!part.tail.firstElementChild) following(() => (part.tail.textContent = part.text.slice(part.done)));
    part.isRendering = true;
    while (part.isBehind) {
      part.isBehind = false;
      const complete = endOfBlocks(part.text.slice(part.done));
      if (complete > MIN_RENDERED) {
        const html = await this.rendered(part.text.slice(part.done, part.done + complete));
        part.done += complete;
        following(() => part.tail.insertAdjacentHTML("beforebegin", html));
      }
      const html = await this.rendered(part.text.slice(part.done));
      following(() => (part.tail.innerHTML = html));
      await new Promise((done) => setTimeout(done, RENDER_PAUSE_MS));
    }
    part.isRendering = false;
  }

  /** HTML of a text, with links to what it cites; the text itself where the server does not answer. */
  async rendered(text) {
    const cited = (whole, number) => (this.sources.has(number) ? `[${number}](${this.sources.get(number)})` : whole);
    const body = new URLSearchParams({ text: text.replace(/\[(\d{1,4})\](?!\()/g, cited) });
    const headers = { "X-CSRFToken": one("[name=csrfmiddlewaretoken]").value, "HX-Request": "true" };
    try {
      const response = await fetch(one("[data-composer]").dataset.render, { method: "POST", body, headers });
      if (response.ok && !response.headers.has("HX-Redirect")) return await response.text();
    } catch {
      // the stream says what is wrong
    }
    return make("p", "", text).outerHTML;
  }

  fold(iconName, label, className, gist = "") {
    const details = make("details", `part fold ${className}`);
    const summary = document.createElement("summary");
    summary.append(icon(iconName), make("span", "fold-label", label), make("code", "gist", gist));
    const body = make("div", "fold-body draft-text");
    details.append(summary, body);
    this.element.append(details);
    this.last = null;
    return body;
  }

  call({ name, input }) {
    const text = JSON.stringify(input, null, 2);
    this.fold("tool", name, "call", Object.values(input).join(" ").slice(0, 120)).append(text);
  }

  result({ name, text, is_error: isError }) {
    for (const [, number, address] of text.matchAll(CITE)) this.sources.set(number, address);
    const label = isError ? word("Error of {name}", { name }) : word("Result of {name}", { name });
    this.fold(isError ? "warning" : "result", label, isError ? "result is-error" : "result", text.slice(0, 120)).append(text);
  }

  note(text) {
    this.element.append(make("p", "message-note", text));
    this.last = null;
  }
}

const scroller = () => (getComputedStyle(one("#main")).overflowY === "auto" ? one("#main") : document.scrollingElement);

/** Runs `change` and keeps the end in view if it was. */
function following(change) {
  const area = scroller();
  const wasAtEnd = area.scrollHeight - area.scrollTop - area.clientHeight < 160;
  change();
  if (wasAtEnd) area.scrollTop = area.scrollHeight;
}

/** A message and its reply. `replaces` is the id of the question that the message takes the place of; `isAgain`: that
    question is asked again as it is. */
class Exchange {
  constructor(form, { text, replaces = "", isAgain = false }) {
    Object.assign(this, { form, text, replaces, isAgain });
    this.page = form.closest(".page");
    this.messages = one("[data-messages]", this.page);
    this.isNew = !this.page.dataset.conversationPage;
    this.turn = null;
  }

  get status() {
    return one("[data-composer-status]", this.form);
  }

  get body() {
    const body = new URLSearchParams(new FormData(this.form));
    body.set("message", this.isAgain ? "" : this.text);
    body.set("replaces", this.replaces);
    if (this.isAgain) body.delete("document");
    return body;
  }

  async run() {
    this.setBusy(true);
    try {
      const headers = { Accept: "text/event-stream", "HX-Request": "true" };
      const response = await fetch(this.form.action, { method: "POST", body: this.body, headers });
      if (response.headers.has("HX-Redirect")) return location.assign(response.headers.get("HX-Redirect"));
      if (!response.ok) return this.refuse(await reasonOf(response));
      this.begin();
      for await (const event of eventsOf(response)) {
        this.take(event);
        if (event.name === "done" || event.name === "error") await this.settle();
      }
      await this.settle();
    } catch {
      if (!this.isOver) this.refuse(word("The server does not answer. What was received is kept: load the page again."));
    } finally {
      if (!this.isOver) this.setBusy(false);
    }
  }

  begin() {
    one("[data-empty]", this.page)?.remove();
    this.page.classList.remove("is-new"); // the composer is docked from the first word on
    if (this.replaces) this.clearFrom(one(`[data-message="${this.replaces}"]`, this.messages));
    this.question = new Draft("user", word("You"));
    this.question.say("text", this.text);
    this.answer = new Draft("assistant", word("Assistant"));
    this.messages.append(this.question.element, this.answer.element);
    if (!this.isAgain) {
      one("[data-attached-files]", this.form).replaceChildren();
      forget(this.form, this.replaces);
      writeDraft(this.form);
    }
    this.status.textContent = word("The reply is being written.");
    if (this.page.isConnected) scroller().scrollTop = scroller().scrollHeight;
  }

  /** What the thread goes on without; the versions of the question lead back to it. */
  clearFrom(question) {
    while (question) {
      const next = question.nextElementSibling;
      question.remove();
      question = next;
    }
  }

  take({ name, data }) {
    following(() => {
      if (name === "message_started") this.started(data);
      else if (name === "text" || name === "thinking") this.answer.say(name, data.text);
      else if (name === "tool_call") this.answer.call(data);
      else if (name === "tool_result") this.answer.result(data);
      else if (name === "context" && data.left_out) this.question.note(leftOut(data.left_out));
      else if (name === "turn") this.turn = data;
      else if (name === "error") this.fail(data.detail);
      else if (name === "title") retitle(this.id, data.title);
    });
  }

  started(data) {
    this.url = data.url;
    this.id = data.conversation_id;
    this.stopAddress = `${data.url}/stop`;
    one("[data-stop]", this.form).hidden = false;
    if (!this.isNew) return;
    if (this.page.isConnected) history.replaceState(null, "", data.url);
    refreshList();
  }

  /** The stored reply says so itself, once it is shown; until then, and where nothing was stored, the composer does. */
  fail(detail) {
    this.failure = detail;
  }

  refuse(reason) {
    showError(this.form, reason);
    offerAgain(this.form);
    if (!this.question && !this.isAgain) write(this.form, this.text, this.replaces);
  }

  /** Puts what the server has stored and rendered in the place of the drafts; once, and not over another page that has
      been opened meanwhile. */
  async settle() {
    if (!this.url || this.isOver) return;
    this.status.textContent = this.failure || this.isStopped ? "" : word("The reply is complete.");
    if (this.page.isConnected) await this.showStored();
    this.isOver = true; // what may still come is a title; the next message need not wait for it
    this.setBusy(false);
    refreshList();
  }

  async showStored() {
    if (this.isNew || one("[data-later]", this.messages)) {
      const address = this.turn && !this.isNew ? this.turn.url : this.url;
      await htmx.ajax("GET", address, { target: "#main" });
      const form = one("[data-composer]");
      if (this.isNew && form) moveTyped(this.form, form);
      return this.tell(one("[data-messages]"), form);
    }
    const stored = [...this.messages.querySelectorAll("[data-position]")].at(-1);
    const next = stored ? Number(stored.dataset.position) + 1 : 0;
    const response = await fetch(`${this.url}?later=${next}`, { headers: { "HX-Request": "true" } });
    if (!response.ok) return;
    const html = await response.text();
    following(() => {
      this.question.element.remove();
      this.answer.element.remove();
      this.messages.insertAdjacentHTML("beforeend", html);
      htmx.process(this.messages);
    });
    this.tell(this.messages, this.form);
    offerAgain(this.form);
  }

  /** Says what failed where the stored reply does not. */
  tell(messages, form) {
    if (this.failure && form && !messages.lastElementChild?.querySelector(".message-note.is-warning")) showError(form, this.failure);
  }

  async stop() {
    if (!this.stopAddress) return;
    this.isStopped = true;
    this.status.textContent = word("Stopping…");
    const token = this.form.elements.csrfmiddlewaretoken.value;
    await fetch(this.stopAddress, { method: "POST", headers: { "X-CSRFToken": token }, redirect: "manual" });
  }

  setBusy(isBusy) {
    one("[data-send]", this.form).disabled = isBusy;
    if (!isBusy) one("[data-stop]", this.form).hidden = true;
    this.form.toggleAttribute("aria-busy", isBusy);
  }
}

function leftOut(count) {
  return count === 1 ? word("One older message was left out.") : word("{count} older messages were left out.", { count });
}

async function reasonOf(response) {
  const reason = reasonIn(await response.text());
  if (reason) return reason;
  if (response.status === 403) return word("This page is out of date: load it again. What you wrote is kept.");
  return word("The server answered {status}.", { status: response.status });
}

function showError(form, text) {
  const place = one("[data-composer-error]", form);
  place.textContent = text.replaceAll("`", "");
  place.hidden = !text;
}

/** Puts a text into the composer; with `replaces`, one that takes the place of an earlier question. */
function write(form, text, replaces = "") {
  form.elements.message.value = text;
  form.elements.replaces.value = replaces;
  one("[data-editing]", form).hidden = !replaces;
}

/** Takes what was typed while the first reply of a chat came along into the composer of its page. */
function moveTyped(from, to) {
  const text = from.elements.message.value, { message } = to.elements;
  if (!text) return;
  forget(from, "");
  message.value = text;
  message.dispatchEvent(new Event("input", { bubbles: true })); // drafts.js keeps it there
  message.focus();
}

/** Shows what was typed before, unless the composer holds something already. */
function writeDraft(form, isEmptied = true) {
  if (!isEmptied && form.elements.message.value) return;
  const { text, edited } = draftOf(form);
  if (edited && one(`[data-message="${edited.replaces}"]`)) write(form, edited.text, edited.replaces);
  else write(form, text);
}

/** A new chat has come, or another has moved up. */
const refreshList = () => document.dispatchEvent(new Event("convmemory:changed"));

/** The title that the model has given a chat. */
function retitle(id, title) {
  const page = one(`[data-conversation-page="${id}"]`);
  if (title && page) {
    const heading = one("[data-title]", page);
    heading.textContent = heading.title = title;
    one("[data-title-form] [name=title]", page).value = title;
    document.title = `${title} · convmemory`;
  }
  if (title) refreshList();
}

/** The last question can be asked again, where it was asked here. */
function offerAgain(form) {
  const again = one("[data-again]", form.closest(".page"));
  const question = [...document.querySelectorAll("[data-messages] > .message.is-user[data-message]")].at(-1);
  if (!again || !question || !one("[data-edit-question]", question)) return;
  for (const field of again.querySelectorAll("[name=replaces]")) field.value = question.dataset.message;
  const { href, dataset } = one("[data-edit-question]", question);
  Object.assign(one("[data-edit-question]", again), { href }).dataset.editQuestion = dataset.editQuestion;
  again.hidden = false;
}

let toEdit; // the question that was last pressed to be edited

/** A question that was asked in this conversation, put into the composer. */
async function edit(question) {
  const form = one("[data-composer]");
  if (!form || form.hasAttribute("aria-busy")) return;
  toEdit = question;
  const response = await fetch(one("[data-copy-text]", question).href);
  const text = await response.text();
  if (!response.ok || toEdit !== question || form.hasAttribute("aria-busy")) return;
  write(form, text, question.dataset.message);
  question.after(form.closest("[data-chat]")); // edited where it stands
  form.elements.message.focus();
}

/** Puts the composer back below the messages. */
function dock(form) {
  const chat = form.closest("[data-chat]");
  if (chat.closest("[data-messages]")) chat.closest("[data-messages]").parentElement.append(chat);
}

const running = new WeakMap();

function start(form, what) {
  if (form.hasAttribute("aria-busy")) return;
  showError(form, "");
  dock(form);
  one("[data-again]", form.closest(".page"))?.setAttribute("hidden", "");
  const exchange = new Exchange(form, what);
  running.set(form, exchange);
  exchange.run();
}

function askAgain(id) {
  const question = one(`[data-message="${id}"]`);
  const text = [...(question?.querySelectorAll(".part") ?? [])].map((part) => part.innerText).join("\n\n");
  start(one("[data-composer]"), { text, replaces: id, isAgain: true });
}

/** Stores the chosen files, and shows them in the composer. */
async function attach(form) {
  const composer = one("[data-composer]", form.closest("[data-chat]"));
  const place = one("[data-attached-files]", composer);
  const body = new FormData(form);
  form.reset();
  if (!body.getAll("file").some((file) => file.size)) return;
  place.classList.add("is-waiting");
  try {
    const response = await fetch(form.action, { method: "POST", body, headers: { "HX-Request": "true" } });
    if (response.headers.has("HX-Redirect")) return location.assign(response.headers.get("HX-Redirect"));
    if (!response.ok) return showError(composer, reasonIn(await response.text()) ?? word("The file could not be stored."));
    place.insertAdjacentHTML("beforeend", await response.text());
    htmx.process(place);
  } catch {
    showError(composer, word("The server does not answer. Is it running?"));
  } finally {
    place.classList.remove("is-waiting");
  }
  composer.elements.message.focus();
}

document.addEventListener("htmx:load", ({ detail }) => {
  if (detail.elt.matches?.("[data-attached]:not([data-unread])")) showError(detail.elt.closest("form"), "");
});

/** The menu of models becomes a field to type into: an endpoint may answer to names that it does not list. */
function typeModel(menu) {
  const field = Object.assign(document.createElement("input"), { id: menu.id, name: menu.name, maxLength: 200, autocomplete: "off" });
  menu.replaceWith(field);
  field.focus();
}

document.addEventListener("change", ({ target }) => {
  if (target.form?.matches("[data-attach-form]")) attach(target.form);
  if (target.matches("[data-model-menu]") && target.selectedOptions[0].matches("[data-other-model]")) typeModel(target);
});

/** A message waits until its files have been read. */
function isReading(form) {
  const unread = one("[data-unread], .is-waiting", form);
  if (unread) showError(form, word("A file is still being read: send in a moment, or take it out."));
  return Boolean(unread);
}

document.addEventListener("submit", (event) => {
  const { target } = event;
  if (target.matches("[data-attach-form]")) {
    event.preventDefault();
    attach(target);
  } else if (target.matches("[data-composer]")) {
    event.preventDefault();
    if (isReading(target)) return;
    start(target, { text: target.elements.message.value, replaces: target.elements.replaces.value });
  } else if (target.matches("[data-again-form]")) {
    event.preventDefault();
    const agent = event.submitter?.name === "agent" && event.submitter.value;
    if (agent) one("[data-composer] [name=agent]").value = agent;
    askAgain(target.elements.replaces.value);
  }
});

document.addEventListener("click", (event) => {
  const pressed = (selector) => event.target.closest(selector);
  const stop = pressed("[data-stop]"), edited = pressed("[data-edit-question]")?.dataset.editQuestion;
  const question = edited && one(`[data-message="${edited}"]`);
  if (stop) running.get(stop.form)?.stop();
  if (question) {
    event.preventDefault();
    edit(question);
  }
  const cancel = pressed("[data-stop-editing]");
  if (cancel?.closest("[data-conversation-page]")) {
    const form = cancel.closest("form");
    event.preventDefault();
    forget(form, form.elements.replaces.value);
    dock(form);
    writeDraft(form);
  }
  pressed("[data-detach]")?.closest("[data-attached]").remove();
});

/** What was typed on this page before is there again. */
function showDraft() {
  const form = one("[data-composer]");
  if (form) writeDraft(form, false);
}

showDraft();
document.addEventListener("htmx:afterSwap", ({ detail }) => detail.target?.id === "main" && showDraft());
document.addEventListener("htmx:historyRestore", showDraft);
