/* The library: choosing many with Shift, stars and pins without leaving the page, and an Undo before anything is
   deleted. Without this file the same buttons are sent as plain forms, and deleting asks on a page of its own. */
(() => {
  "use strict";

  const UNDO_MS = 8000;
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const form = () => one("[data-bulk]");
  const chosen = () => all("[data-choose]:checked", form());

  /* --- choosing -------------------------------------------------------------------------------- */

  let last = null; // the box that was clicked before: Shift chooses from there on

  function count() {
    const place = one("[data-bulk-count]");
    if (place) place.textContent = word("{count} chosen", { count: chosen().length });
  }

  document.addEventListener("click", (event) => {
    const box = event.target.closest("[data-choose]");
    if (!box) return;
    const boxes = all("[data-choose]", form());
    if (event.shiftKey && last && boxes.includes(last)) {
      const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)].sort((a, b) => a - b);
      for (const between of boxes.slice(from, to + 1)) between.checked = box.checked;
    }
    last = box;
    count();
  });

  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-bulk-none]")) return;
    for (const box of chosen()) box.checked = false;
    count();
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !event.target.matches(".bulk-tag input")) return;
    event.preventDefault(); // Enter would press the form's first button
    one('[name="action"][value="tag"]', form()).click();
  });

  /* --- a star or a pin --------------------------------------------------------------------------- */

  async function toggle(button) {
    const values = new URLSearchParams({ [button.name]: button.value });
    values.set("csrfmiddlewaretoken", form().elements.csrfmiddlewaretoken.value);
    const headers = { "HX-Request": "true" };
    const response = await fetch(button.formAction, { method: "POST", body: values, headers, redirect: "manual" });
    if (response.headers.has("HX-Redirect")) return location.assign(response.headers.get("HX-Redirect"));
    if (response.type !== "opaqueredirect" && !response.ok) return;
    button.setAttribute("aria-pressed", String(button.value === "1"));
    button.value = button.value === "1" ? "0" : "1";
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-row-toggle]");
    if (!button) return;
    event.preventDefault();
    toggle(button);
  });

  /* --- deleting, with a while to think ------------------------------------------------------------- */

  let waiting = null; // what is deleted when its time is over

  function removal() {
    const values = new URLSearchParams({ action: "delete", confirmed: "1" });
    values.set("csrfmiddlewaretoken", form().elements.csrfmiddlewaretoken.value);
    values.set("chosen", chosen().map((box) => box.value).join(","));
    const rows = chosen().map((box) => box.closest("li"));
    return { address: form().getAttribute("action"), values, rows, count: rows.length };
  }

  function carryOut() {
    if (!waiting) return;
    const { address, values, toast, timer } = waiting;
    waiting = null;
    clearTimeout(timer);
    toast.remove();
    fetch(address, { method: "POST", body: values, keepalive: true, redirect: "manual" });
  }

  function takeBack() {
    const { rows, toast, timer } = waiting;
    waiting = null;
    clearTimeout(timer);
    toast.remove();
    for (const row of rows) row.hidden = false;
  }

  function undoToast(text) {
    const toast = document.createElement("div");
    toast.className = "undo-toast";
    toast.setAttribute("role", "status");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = word("Undo");
    button.addEventListener("click", takeBack);
    toast.append(text, button);
    document.body.append(toast);
    button.focus();
    return toast;
  }

  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-bulk-delete]")) return;
    event.preventDefault();
    carryOut();
    const asked = removal();
    for (const row of asked.rows) {
      row.hidden = true;
      for (const box of all("[data-choose]", row)) box.checked = false;
    }
    const said = asked.count === 1 ? word("{count} conversation deleted.", asked) : word("{count} conversations deleted.", asked);
    const toast = undoToast(said);
    waiting = { ...asked, toast, timer: setTimeout(carryOut, UNDO_MS) };
  });

  addEventListener("pagehide", carryOut);
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target.id === "main") carryOut();
  });
})();
