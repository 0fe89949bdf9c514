/* Passkeys: a form with `data-passkey` asks the browser to create or get one, and is then sent with its answer. */
(() => {
  "use strict";

  const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

  /* By hand, because Safari has `parseCreationOptionsFromJSON` and `toJSON` only since version 18.4. */
  const parsed = (json) => {
    const options = JSON.parse(json);
    options.challenge = bytes(options.challenge);
    if (options.user) options.user.id = bytes(options.user.id);
    for (const known of options.excludeCredentials ?? []) known.id = bytes(known.id);
    return options;
  };

  const answerOf = (credential) => {
    const response = {};
    for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
      if (credential.response[name]) response[name] = text(credential.response[name]);
    }
    const id = text(credential.rawId);
    return JSON.stringify({ id, rawId: id, type: credential.type, response, clientExtensionResults: {} });
  };

  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("[data-passkey]");
    if (!form || form.elements.credential.value) return;
    event.preventDefault();
    const failed = form.querySelector("[data-failed]");
    failed.hidden = true;
    try {
      const publicKey = parsed(form.dataset.options);
      form.elements.credential.value = answerOf(await navigator.credentials[form.dataset.passkey]({ publicKey }));
    } catch {
      // cancelled, no passkey, or an address for which there can be none: the browser has said which
      failed.hidden = false;
      return;
    }
    form.submit();
  });
})();
