/* The palette (Ctrl K) and the list of keys (?), as dialogs over every page. It also does what the open page's head and
   menu do. Without this file the palette is a page. */
(() => {
  "use strict";

  const one = (selector, root = document) => root.querySelector(selector);
  const DELAY_MS = 120;
  const palette = () => one("[data-palette]");
  const box = () => one("input", palette());
  const entries = () => [...palette().querySelectorAll(".palette-entry")];
  let waiting;
  let asked;
  let filledFor; // the text that the entries answer
  let picked; // the entry that was gone to with the arrow keys since something was typed: its address or its text

  const nameOf = (entry) => entry?.href ?? entry?.textContent;

  function choose(index) {
    const list = entries();
    const chosen = list[Math.max(0, Math.min(index, list.length - 1))];
    list.forEach((entry, place) => {
      entry.id = `palette-entry-${place}`;
      entry.classList.toggle("is-chosen", entry === chosen);
    });
    if (!chosen) return box().removeAttribute("aria-activedescendant");
    box().setAttribute("aria-activedescendant", chosen.id);
    chosen.scrollIntoView({ block: "nearest" });
  }

  /* Buttons and links of its head and menu; a form with a field of its own wants to be seen. */
  const CONTROLS = ["[data-preview-open]", ".star button", "[data-copy-address]", "[data-wants-find]", ".menu-body > :is(a, button)", ".menu-body > form:not(.rename) > button"]
    .map((control) => `:scope > .page-head ${control}`)
    .concat(".doc-bar [data-wants-find]").join();

  const labelOf = (control) => control.title || control.getAttribute("aria-label") || control.firstChild.textContent.trim();

  /** An entry that presses the control, or for a field puts the caret there. */
  function entryFor(control) {
    const entry = Object.assign(document.createElement("button"), { type: "button", className: "palette-entry" });
    const label = Object.assign(document.createElement("span"), { className: "palette-label", textContent: labelOf(control) });
    const icon = (one("svg", control) ?? one(".palette-box svg")).cloneNode(true);
    if (!one("svg", control)) one("use", icon).setAttribute("href", one("use", icon).getAttribute("href").replace(/#.*/, "#chevron"));
    entry.append(icon, label);
    entry.addEventListener("click", () => {
      palette().close();
      if (control.matches("[data-wants-find]")) document.dispatchEvent(new Event("convmemory:find"));
      else control.click();
    });
    return entry;
  }

  /** Shows first what can be done with the open page: the actions whose words begin with what was typed. */
  function showActions(text) {
    one("[data-actions]", palette())?.remove();
    const page = one("#main :is(.page, .preview):has(> .page-head :is(.menu-body, [data-preview-open]))");
    const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (control) => {
      const words = labelOf(control).toLowerCase().split(/\s+/);
      return wanted.every((typed) => words.some((word) => word.startsWith(typed)));
    };
    const found = [...(page?.querySelectorAll(CONTROLS) ?? [])].filter(fits);
    if (!found.length) return;
    const section = Object.assign(document.createElement("section"), { className: "palette-section" });
    const list = document.createElement("ul");
    for (const control of found) list.appendChild(document.createElement("li")).append(entryFor(control));
    section.dataset.actions = "";
    section.append(Object.assign(document.createElement("h2"), { dir: "auto", textContent: one("h1", page).textContent }), list);
    one("#palette-entries").prepend(section);
  }

  /** Goes to the next entry, or the one before; what comes in later does not move the choice away from it. */
  function step(by) {
    choose(chosenIndex() + by);
    picked = nameOf(entries()[chosenIndex()]);
  }

  const chosenIndex = () => entries().findIndex((entry) => entry.classList.contains("is-chosen"));

  async function fill() {
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    const text = box().value;
    const address = `${palette().dataset.address}?go=${encodeURIComponent(text)}`;
    try {
      const response = await fetch(address, { headers: { "HX-Request": "true" }, signal });
      if (response.headers.has("HX-Redirect")) return location.assign(response.headers.get("HX-Redirect"));
      if (!response.ok || signal.aborted) return;
      one("#palette-entries").innerHTML = await response.text();
      showActions(text);
      filledFor = text;
      choose(entries().findIndex((entry) => nameOf(entry) === picked));
    } catch (error) {
      if (error.name !== "AbortError") htmx.trigger(document.body, "htmx:sendError");
    }
  }

  /** Opens the entry that was picked, else the first for what has been typed by now. */
  async function go() {
    clearTimeout(waiting);
    if (!picked && filledFor !== box().value) await fill();
    entries()[chosenIndex()]?.click();
  }

  function open() {
    if (palette().open) return palette().close();
    box().value = "";
    picked = undefined;
    palette().showModal();
    box().focus();
    showActions("");
    choose(0);
    fill();
  }

  /** The list of keys, which is in the page from the first time that it is asked for. */
  function showKeys() {
    const dialog = one("#keys-dialog"), template = one("template", dialog);
    template?.replaceWith(template.content);
    if (!dialog.open) dialog.showModal();
  }

  const isTyping = (element) => element.matches("input, textarea, select, [contenteditable]");

  document.addEventListener("keydown", (event) => {
    if (!palette() || event.isComposing) return;
    if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
      open();
    } else if (event.key === "?" && !event.ctrlKey && !event.metaKey && !isTyping(document.activeElement ?? document.body)) {
      showKeys();
    } else if (palette().open && event.key === "ArrowDown") {
      step(1);
    } else if (palette().open && event.key === "ArrowUp") {
      step(-1);
    } else if (palette().open && event.key === "Enter") {
      go();
    } else {
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
  });

  document.addEventListener("input", (event) => {
    if (!palette() || event.target !== box()) return;
    clearTimeout(waiting);
    picked = undefined;
    showActions(box().value);
    choose(0);
    waiting = setTimeout(fill, DELAY_MS);
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-palette-open]");
    if (link && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      open();
    } else if (event.target.matches("dialog[open]")) {
      event.target.close(); // outside of the dialog, on its backdrop
    }
  });

  if (palette() && "paletteWanted" in document.documentElement.dataset) open(); // see early.js
})();
