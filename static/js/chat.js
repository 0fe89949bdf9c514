/* The composer with JavaScript: the reply appears as it is written. Without this file the form waits for it.
   What the model says is put in as text; the server renders it once it is stored. */

import { renderMarkdown } from "./markdown.js";

const one = (selector, root = document) => root.querySelector(selector);

/** The events of a stream, as {name, data}. */
async function* eventsOf(response) {
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

/* --- what is shown until the server has rendered it ------------------------------------------------ */

/** A message in the making. */
class Draft {
  constructor(kind, speaker) {
    this.element = make("article", `message is-${kind} is-headed is-draft`);
    const head = make("div", "message-head");
    head.append(make("span", "speaker", speaker));
    this.element.append(head);
    this.last = null;
  }

  /** Adds to the part of this kind if it is the last one, else begins one. */
  say(kind, text) {
    if (this.last?.kind !== kind) {
      const body = kind === "thinking" ? this.fold("thought", "Thinking", "thinking") : make("div", "part prose");
      if (kind !== "thinking") this.element.append(body);
      this.last = { kind, body, text: "" };
    }
    this.last.text += text;
    if (kind === "thinking") this.last.body.append(text);
    else this.draw(this.last);
  }

  /** Lays the text out as Markdown, at most once a frame however fast it comes. */
  draw(part) {
    if (part.waits) return;
    part.waits = true;
    requestAnimationFrame(() => {
      part.waits = false;
      following(() => part.body.replaceChildren(renderMarkdown(part.text)));
    });
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
    const label = `${isError ? "Error" : "Result"} of ${name}`;
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

/* --- one exchange ---------------------------------------------------------------------------------- */

class Exchange {
  constructor(form) {
    this.form = form;
    this.page = form.closest(".page");
    this.messages = one("[data-messages]", this.page);
    this.text = form.elements.message.value;
    this.isNew = !this.page.dataset.conversationPage;
    this.turn = null;
  }

  get status() {
    return one("[data-composer-status]", this.form);
  }

  async run() {
    this.setBusy(true);
    try {
      const response = await fetch(this.form.action, {
        method: "POST",
        body: new URLSearchParams(new FormData(this.form)),
        headers: { Accept: "text/event-stream" },
      });
      if (!response.ok) return this.refuse(await reasonOf(response));
      this.begin();
      for await (const event of eventsOf(response)) this.take(event);
      await this.settle();
    } catch {
      this.refuse("The server does not answer. What was received is kept: load the page again.");
    } finally {
      this.setBusy(false);
    }
  }

  begin() {
    one("[data-empty]", this.page)?.remove();
    this.question = new Draft("user", "You");
    this.question.say("text", this.text);
    this.answer = new Draft("assistant", "Assistant");
    this.messages.append(this.question.element, this.answer.element);
    this.form.reset();
    this.form.elements.message.value = "";
    this.status.textContent = "The reply is being written.";
    scroller().scrollTop = scroller().scrollHeight;
  }

  take({ name, data }) {
    following(() => {
      if (name === "message_started") this.started(data);
      else if (name === "text" || name === "thinking") this.answer.say(name, data.text);
      else if (name === "tool_call") this.answer.call(data);
      else if (name === "tool_result") this.answer.result(data);
      else if (name === "context" && data.left_out) this.question.note(`${data.left_out} older messages were left out.`);
      else if (name === "turn") this.turn = data;
      else if (name === "error") this.fail(data.detail);
    });
  }

  started(data) {
    this.url = data.url;
    this.id = data.conversation_id;
    this.stopAddress = `${data.url}/stop`;
    one("[data-stop]", this.form).hidden = false;
    if (this.isNew) history.replaceState(null, "", data.url);
  }

  /** The stored reply says so itself, once it is shown; until then, and where nothing was stored, the composer does. */
  fail(detail) {
    this.failure = detail;
  }

  refuse(reason) {
    showError(this.form, reason);
    if (!this.question) this.form.elements.message.value = this.text;
  }

  /** Puts what the server has stored and rendered in the place of the drafts. */
  async settle() {
    if (!this.url) return;
    this.status.textContent = this.failure || this.isStopped ? "" : "The reply is complete.";
    if (this.isNew || one("[data-later]", this.messages)) {
      const address = this.turn && !this.isNew ? this.turn.url : this.url;
      await htmx.ajax("GET", address, { target: "#main" });
      this.tell(one("[data-messages]"));
      refreshList();
      return;
    }
    const stored = [...this.messages.querySelectorAll("[data-position]")].at(-1);
    const next = stored ? Number(stored.dataset.position) + 1 : 0;
    const response = await fetch(`${this.url}?after=${next}`, { headers: { "HX-Request": "true" } });
    if (!response.ok) return;
    const html = await response.text();
    following(() => {
      this.question.element.remove();
      this.answer.element.remove();
      this.messages.insertAdjacentHTML("beforeend", html);
      htmx.process(this.messages);
    });
    this.tell(this.messages);
    refreshList();
  }

  /** Says what failed where the stored reply does not. */
  tell(messages) {
    const said = [...messages.querySelectorAll(".message-note.is-warning")].at(-1)?.textContent ?? "";
    const form = one("[data-composer]");
    if (this.failure && form && !said.includes(this.failure)) showError(form, this.failure);
    offerRetry();
  }

  async stop() {
    if (!this.stopAddress) return;
    this.isStopped = true;
    this.status.textContent = "Stopping…";
    const token = this.form.elements.csrfmiddlewaretoken.value;
    await fetch(this.stopAddress, { method: "POST", headers: { "X-CSRFToken": token }, redirect: "manual" });
  }

  setBusy(isBusy) {
    one("[data-send]", this.form).disabled = isBusy;
    if (!isBusy) one("[data-stop]", this.form).hidden = true;
    this.form.toggleAttribute("aria-busy", isBusy);
  }
}

async function reasonOf(response) {
  try {
    return (await response.json()).detail;
  } catch {
    return `The server answered ${response.status}.`;
  }
}

function showError(form, text) {
  const place = one("[data-composer-error]", form);
  place.textContent = text;
  place.hidden = !text;
}

/* --- after an exchange ------------------------------------------------------------------------------ */

/** Loads the list of conversations again where it shows no search: a new chat has come, or another has moved up. */
function refreshList() {
  const list = one("#results"), box = one("#q");
  if (list && box && !box.value) htmx.ajax("GET", box.form.action, { target: "#results", swap: "innerHTML" });
}

/** Below a reply that failed or was stopped: the question again, as it is or to be changed. */
function offerRetry() {
  const note = [...document.querySelectorAll("[data-messages] > .message:last-of-type .message-note")].at(-1);
  if (!note || !one("[data-composer]") || one("[data-retry]", note)) return;
  for (const [label, name] of [["Retry", "retry"], ["Edit", "edit"]]) {
    const button = make("button", "button small quiet", label);
    button.type = "button";
    button.dataset[name] = "";
    note.append(button);
  }
}

/** The last question, as it was written, put into the composer. */
async function askAgain(isSent) {
  const address = [...document.querySelectorAll(".message.is-user [data-copy-text]")].at(-1)?.href;
  const form = one("[data-composer]");
  if (!address || !form || form.hasAttribute("aria-busy")) return;
  form.elements.message.value = await (await fetch(address)).text();
  form.elements.message.focus();
  if (isSent) form.requestSubmit();
}

const running = new WeakMap();

document.addEventListener("submit", (event) => {
  const form = event.target.closest("[data-composer]");
  if (!form) return;
  event.preventDefault();
  if (form.hasAttribute("aria-busy")) return;
  showError(form, "");
  const exchange = new Exchange(form);
  running.set(form, exchange);
  exchange.run();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-stop]");
  if (button) running.get(button.form)?.stop();
  if (event.target.closest("[data-retry]")) askAgain(true);
  if (event.target.closest("[data-edit]")) askAgain(false);
  const model = event.target.closest("[data-model]");
  if (model) one("[name=model]", model.closest("form")).value = model.dataset.model;
});

offerRetry();
document.addEventListener("htmx:afterSwap", offerRetry);
