/* Files dropped anywhere on a page that takes them go into its form, which is sent at once. Without this file they are
   chosen with the form's own button. */
(() => {
  "use strict";

  /** The composer below the pointer, else the page's own form, else the one in the tray. */
  const form = (target) =>
    target?.closest("[data-chat]")?.querySelector("[data-attach-form]") ?? document.querySelector("[data-drop-form]");
  const holdsFiles = (event) => form() && [...(event.dataTransfer?.types ?? [])].includes("Files");
  let depth = 0; // dragging over an element inside leaves the one around it

  function show(isShown) {
    document.body.classList.toggle("is-dropping", isShown);
    if (!isShown) depth = 0;
  }

  /* What is chosen is sent at once, too. */
  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-drop-form]:not([data-upload-form]) [data-drop-input]") && target.files.length) target.form.requestSubmit();
  });

  document.addEventListener("dragenter", (event) => {
    if (holdsFiles(event)) show(++depth > 0);
  });

  document.addEventListener("dragleave", (event) => {
    if (holdsFiles(event) && --depth <= 0) show(false);
  });

  document.addEventListener("dragover", (event) => {
    if (holdsFiles(event)) event.preventDefault();
  });

  document.addEventListener("drop", (event) => {
    if (!holdsFiles(event)) return;
    const taking = form(event.target);
    event.preventDefault();
    show(false);
    const dropped = new CustomEvent("convmemory:dropped", { bubbles: true, cancelable: true, detail: event.dataTransfer });
    if (!taking.dispatchEvent(dropped)) return; // uploading.js has taken them
    [...taking.elements].find((field) => field.type === "file").files = event.dataTransfer.files;
    taking.requestSubmit();
  });
})();
