/* The three zones: the list is resized with the mouse or the arrow keys, hidden and shown, and stays as it was left.
   Without this file it has the width of the style sheet. */
(() => {
  "use strict";

  const KEY = "convmemory.list";
  const LEAST = 260;
  const STEP = 16;
  const root = document.documentElement;
  const isMirrored = root.dir === "rtl"; // the list lies at the right
  const one = (selector) => document.querySelector(selector);
  const most = () => Math.max(LEAST, Math.min(720, innerWidth * 0.6));

  function read() {
    try {
      return JSON.parse(localStorage.getItem(KEY)) ?? {};
    } catch {
      return {};
    }
  }

  function keep(values) {
    try {
      localStorage.setItem(KEY, JSON.stringify({ ...read(), ...values }));
    } catch {
      // no storage: it lasts until the page is left
    }
  }

  const widthNow = () => Math.round(one("#list").getBoundingClientRect().width);

  function describe() {
    const divider = one("[data-divider]"), toggle = one("[data-list-toggle]");
    if (!divider || !toggle) return;
    divider.hidden = toggle.hidden = false;
    toggle.setAttribute("aria-expanded", String(root.dataset.list !== "hidden"));
    divider.setAttribute("aria-valuemin", String(LEAST));
    divider.setAttribute("aria-valuemax", String(Math.round(most())));
    divider.setAttribute("aria-valuenow", String(widthNow()));
  }

  function setWidth(width) {
    root.style.setProperty("--list", `${Math.round(Math.min(Math.max(width, LEAST), most()))}px`);
    describe();
  }

  function toggleList() {
    const isHidden = root.dataset.list === "hidden";
    if (isHidden) delete root.dataset.list;
    else root.dataset.list = "hidden";
    keep({ hidden: !isHidden });
    describe();
  }

  document.addEventListener("pointerdown", (event) => {
    const divider = event.target.closest("[data-divider]");
    if (!divider) return;
    event.preventDefault();
    divider.focus();
    divider.setPointerCapture(event.pointerId);
    document.body.classList.add("is-resizing");
    const { left, right } = one("#list").getBoundingClientRect();
    const move = (moved) => setWidth(isMirrored ? right - moved.clientX : moved.clientX - left);
    divider.addEventListener("pointermove", move);
    divider.addEventListener(
      "lostpointercapture",
      () => {
        divider.removeEventListener("pointermove", move);
        document.body.classList.remove("is-resizing");
        keep({ width: widthNow() });
      },
      { once: true },
    );
  });

  document.addEventListener("dblclick", (event) => {
    if (!event.target.closest("[data-divider]")) return;
    root.style.removeProperty("--list");
    keep({ width: 0 });
    describe();
  });

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-list-toggle]")) toggleList();
  });

  const isTyping = (element) => element.matches("input, textarea, select, [contenteditable]");

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const active = document.activeElement ?? document.body;
    const by = { ArrowLeft: isMirrored ? STEP : -STEP, ArrowRight: isMirrored ? -STEP : STEP }[event.key];
    if (by && active.matches("[data-divider]")) {
      setWidth(widthNow() + by);
      keep({ width: widthNow() });
    } else if (event.key === "[" && !isTyping(active) && one("[data-list-toggle]")) {
      toggleList();
    } else {
      return;
    }
    event.preventDefault();
  });

  /* Code that is wider than its frame is scrolled with the keyboard, too. */
  function letCodeBeScrolled() {
    for (const block of document.querySelectorAll("pre:not([tabindex])")) {
      if (block.scrollWidth > block.clientWidth || block.scrollHeight > block.clientHeight) block.tabIndex = 0;
    }
  }

  document.addEventListener("DOMContentLoaded", () => (describe(), letCodeBeScrolled()));
  document.addEventListener("htmx:afterSettle", letCodeBeScrolled);
  document.addEventListener("htmx:historyRestore", describe);
  addEventListener("resize", () => (describe(), letCodeBeScrolled()));
})();
