/* What was typed and not sent. A composer keeps its text in this browser until it is sent, one draft for each
   conversation; other forms keep theirs while their reader signs in again. */

const one = (selector, root = document) => root.querySelector(selector);
const DRAFTS = "convmemory.draft.";
const LEFT = "convmemory.left";

function readFrom(storage, key) {
  try {
    return JSON.parse(storage.getItem(key));
  } catch {
    return null; // not ours
  }
}

function storeIn(storage, key, value) {
  try {
    if (value) storage.setItem(key, JSON.stringify(value));
    else storage.removeItem(key);
  } catch {
    // no storage, or it is full: the text lasts until the page is left
  }
}

const keyOf = (form) => `${DRAFTS}${document.body.dataset.user}.${new URL(form.action).pathname}`;
const NOTHING = { text: "", edited: null };

/** A new message, and an earlier one that is being edited as {text, replaces}. */
export const draftOf = (form) => readFrom(localStorage, keyOf(form)) ?? NOTHING;

function keep(form, draft) {
  storeIn(localStorage, keyOf(form), draft.text || draft.edited ? draft : null);
}

/** Keeps what the composer holds now. */
function keepTyped(form) {
  const text = form.elements.message.value, replaces = form.elements.replaces.value;
  keep(form, { ...draftOf(form), ...(replaces ? { edited: { text, replaces } } : { text }) });
}

/** The message was sent, or its editing given up. */
export function forget(form, replaces) {
  keep(form, { ...draftOf(form), ...(replaces ? { edited: null } : { text: "" }) });
}

document.addEventListener("input", ({ target }) => {
  if (target.matches("[data-composer] [name=message]")) keepTyped(target.form);
});

document.addEventListener("submit", ({ target }) => {
  if (!target.matches("[data-sign-out]")) return;
  for (const key of Object.keys(localStorage)) if (key.startsWith(DRAFTS)) storeIn(localStorage, key, null);
});

const FIELDS = "#main form:not([data-composer]) :is(textarea, input:not([type]), input[type=text], input[type=url], input[type=number])";
const here = () => location.pathname + location.search;
const actionOf = (field) => field.form.getAttribute("action") ?? ""; // `form.action` may be a button of that name

addEventListener("pagehide", () => {
  const typed = [...document.querySelectorAll(FIELDS)].filter((field) => field.name && field.value !== field.defaultValue);
  const fields = typed.map((field) => [actionOf(field), field.name, field.value]);
  storeIn(sessionStorage, LEFT, fields.length ? { page: here(), fields } : null);
});

const cameFromLogin = () => document.referrer !== "" && new URL(document.referrer).pathname === "/login";

/** Fills the forms of this page as they were left, when their reader has just signed in again. */
function refill() {
  const left = readFrom(sessionStorage, LEFT);
  if (one(".rail")) storeIn(sessionStorage, LEFT, null);
  if (!left || left.page !== here() || !cameFromLogin()) return;
  for (const [address, name, value] of left.fields) {
    const field = [...document.querySelectorAll(FIELDS)].find((other) => other.name === name && actionOf(other) === address);
    if (!field) continue;
    field.value = value;
    field.dispatchEvent(new Event("convmemory:refilled", { bubbles: true }));
  }
}

document.addEventListener("DOMContentLoaded", refill);
