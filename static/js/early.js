/* What must not wait for the other scripts. The page's head loads this file before the body is read, so that no key is
   pressed too soon for it: without chat.js a message is then sent as a plain form. */
(() => {
  "use strict";

  /* Enter sends, Shift+Enter makes a new line; on a phone the button sends. */
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || matchMedia("(pointer: coarse)").matches) return;
    const form = event.target.closest("[data-composer]");
    if (!form || event.target !== form.elements.message) return;
    event.preventDefault();
    form.requestSubmit();
  });
})();
