/* The library: choosing many, stars and pins without leaving the page, keys, and the place that a reader comes back to.
   Without this file the same buttons are sent as plain forms. */
(() => {
  "use strict";

  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const form = () => one("[data-bulk]");
  const chosen = () => all("[data-choose]:checked", form());

  document.addEventListener("toggle", ({ target }) => target.open && one("[data-select-on-open]", target)?.select(), true);

  let last = null; // the box that was clicked before: Shift chooses from there on

  function count() {
    const place = one("[data-bulk-count]");
    if (place) place.textContent = word("{count} chosen", { count: chosen().length });
    const boxes = all("[data-choose]", form()), whole = one("[data-choose-all]"), matching = one("[data-choose-matching]");
    if (whole) {
      whole.checked = boxes.length > 0 && chosen().length === boxes.length;
      whole.indeterminate = !whole.checked && chosen().length > 0;
    }
    if (matching && chosen().length < boxes.length) matching.checked = false;
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

  function chooseAll(isChosen) {
    for (const box of all("[data-choose]", form())) box.checked = isChosen;
    count();
  }

  document.addEventListener("click", ({ target }) => {
    if (target.closest("[data-bulk-none]")) chooseAll(false);
    if (target.matches("[data-choose-all]")) chooseAll(target.checked);
    if (target.matches("[data-choose-matching]") && target.checked) chooseAll(true);
    if (target.closest("[data-close-notice]")) target.closest(".notice").remove();
  });

  document.addEventListener("htmx:afterSwap", () => {
    if (one("[data-library]") && form()) count();
  });

  /* What was done is said once, not again on a page that is loaded anew. */
  document.addEventListener("DOMContentLoaded", () => {
    const address = new URL(location.href);
    if (!one(".undo-notice") || !address.searchParams.has("done")) return;
    for (const name of ["done", "chosen", "name"]) address.searchParams.delete(name);
    history.replaceState(history.state, "", address);
  });

  /** The row that has the focus, else the one below the pointer. */
  const currentRow = () => document.activeElement?.closest(".library-row") ?? one(".library-row:hover");

  /** Presses a button of the bar for what is chosen, else for the current row. */
  function pressForChosen(button) {
    if (!chosen().length) keys.x();
    if (chosen().length) button?.click();
  }

  const keys = {
    x: () => currentRow()?.querySelector("[data-choose]").click(),
    s: () => currentRow()?.querySelector('[name="starred"]').click(),
    e: () => pressForChosen(one('.bulk-bar [value="archive"], .bulk-bar [value="unarchive"]')),
    "#": () => pressForChosen(one('.bulk-bar [value="delete"]')),
  };

  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.matches?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey || isTyping || one("dialog[open]")) return;
    if (!one("[data-library]") || !form()) return;
    event.preventDefault();
    keys[event.key]();
  });

  const PLACE = "convmemory.library";
  const scroller = () => (getComputedStyle(one("#main")).overflowY === "auto" ? one("#main") : document.scrollingElement);

  addEventListener("pagehide", () => {
    if (!one("[data-library]")) return;
    try {
      const opened = document.activeElement?.closest(".library-row")?.dataset.row ?? "";
      sessionStorage.setItem(PLACE, JSON.stringify({ address: location.href, top: scroller().scrollTop, opened }));
    } catch {
      // no storage: the list begins at its top
    }
  });

  document.addEventListener("DOMContentLoaded", () => {
    const isBack = performance.getEntriesByType("navigation")[0]?.type === "back_forward";
    if (!one("[data-library]") || !isBack) return;
    try {
      const place = JSON.parse(sessionStorage.getItem(PLACE));
      if (place?.address !== location.href) return;
      scroller().scrollTop = place.top;
      one(`[data-row="${Number(place.opened)}"] .library-title`)?.focus({ preventScroll: true });
    } catch {
      // not ours
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !event.target.matches(".bulk-tag input")) return;
    event.preventDefault(); // Enter would press the form's first button
    one('[name="action"]', event.target.closest(".bulk-tag")).click();
  });

  async function toggle(button) {
    const { value } = button, values = new URLSearchParams({ [button.name]: value });
    values.set("csrfmiddlewaretoken", form().elements.csrfmiddlewaretoken.value);
    const headers = { "HX-Request": "true" };
    const response = await fetch(button.formAction, { method: "POST", body: values, headers, redirect: "manual" });
    if (response.headers.has("HX-Redirect")) return location.assign(response.headers.get("HX-Redirect"));
    if (response.type !== "opaqueredirect" && !response.ok) return document.dispatchEvent(new CustomEvent("convmemory:refused", { detail: response }));
    button.setAttribute("aria-pressed", String(value === "1")); // as it was sent: it may have been pressed twice
    button.value = value === "1" ? "0" : "1";
    if (button.name === "pinned") movePinned(button.closest("[data-row]").dataset.row);
  }

  /** A pin moves its row at once. */
  async function movePinned(row) {
    await htmx.ajax("GET", location.pathname + location.search, { target: ".library-rows", select: ".library-rows", swap: "outerHTML" });
    one(`[data-row="${row}"] [name="pinned"]`)?.focus();
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-row-toggle]");
    if (!button) return;
    event.preventDefault();
    toggle(button);
  });
})();
