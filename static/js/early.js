/* What must not wait for the other scripts. The page's head loads this file before the body is read, so that no key is
   pressed too soon for it: without chat.js a message is then sent as a plain form. */
(() => {
  "use strict";

  /* How wide the list was left, and whether it was hidden, before anything is drawn. */
  try {
    const { width, hidden } = JSON.parse(localStorage.getItem("convmemory.list") ?? "{}");
    if (width > 0) document.documentElement.style.setProperty("--list", `${width}px`);
    if (hidden) document.documentElement.dataset.list = "hidden";
  } catch {
    // no storage, or not ours: the list is as wide as the style sheet has it
  }

  /* Whether the contents were open, so that their place is kept free. */
  try {
    document.documentElement.dataset.outline = localStorage.getItem("convmemory.outline") ?? "unset";
  } catch {
    // no storage: they are closed
  }

  /* Enter sends, Shift+Enter makes a new line; on a phone the button sends. */
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || matchMedia("(pointer: coarse)").matches) return;
    const form = event.target.closest("[data-composer]");
    if (!form || event.target !== form.elements.message) return;
    event.preventDefault();
    form.requestSubmit();
  });

  /* Ctrl K before the palette's script is there: that opens it as soon as it runs. All scripts have run by the time that
     the page is complete. */
  const remember = (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    document.documentElement.dataset.paletteWanted = "";
  };
  document.addEventListener("keydown", remember);
  document.addEventListener("DOMContentLoaded", () => document.removeEventListener("keydown", remember));
})();
