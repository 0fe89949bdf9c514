/* What Swagger UI leaves out of its markup: names of selects, code that is scrolled with the keyboard, and no link inside a
   button, whose click opens the operation anyway. */
(() => {
  "use strict";

  const page = document.getElementById("swagger-ui");

  function mend() {
    for (const link of page.querySelectorAll(".opblock-summary-control a[href]")) link.removeAttribute("href");
    for (const code of page.querySelectorAll("pre.microlight:not([tabindex])")) code.tabIndex = 0;
    for (const select of page.querySelectorAll("[data-param-name] select:not([aria-label])")) {
      select.setAttribute("aria-label", select.closest("[data-param-name]").dataset.paramName);
    }
  }

  new MutationObserver(mend).observe(page, { childList: true, subtree: true });
})();
