/* Files dropped anywhere on a page that takes them go into its form, which is sent at once. Without this file they are
   chosen with the form's own button. */
(() => {
  "use strict";

  const form = () => document.querySelector("[data-drop-form]"); // the page's own, else the one in the tray
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
    event.preventDefault();
    show(false);
    const dropped = new CustomEvent("convmemory:dropped", { bubbles: true, cancelable: true, detail: event.dataTransfer });
    if (!form().dispatchEvent(dropped)) return; // uploading.js has taken them
    form().querySelector("[data-drop-input]").files = event.dataTransfer.files;
    form().requestSubmit();
  });
})();
