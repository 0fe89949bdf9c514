"""The texts of the pages' scripts; `static/js/words.js` looks them up in the page."""

from django.utils.translation import get_language, gettext, gettext_noop

SCRIPT_WORDS = (
    gettext_noop("Copied"),
    gettext_noop("Selected"),
    gettext_noop("Copy"),
    gettext_noop("Copy this code"),
    gettext_noop("Link copied"),
    gettext_noop("Code copied"),
    gettext_noop("Message copied"),
    gettext_noop("The server does not answer. Is it running?"),
    gettext_noop("That is no longer there."),
    gettext_noop("The server could not answer that. Try again in a moment."),
    gettext_noop("{count} chosen"),
    gettext_noop("{count} conversation deleted."),
    gettext_noop("{count} conversations deleted."),
    gettext_noop("Undo"),
    gettext_noop("The title could not be saved."),
    gettext_noop("Thinking"),
    gettext_noop("The server does not answer. What was received is kept: load the page again."),
    gettext_noop("The reply is being written."),
    gettext_noop("The reply is complete."),
    gettext_noop("Stopping…"),
    gettext_noop("You"),
    gettext_noop("Assistant"),
    gettext_noop("Result of {name}"),
    gettext_noop("Error of {name}"),
    gettext_noop("One older message was left out."),
    gettext_noop("{count} older messages were left out."),
    gettext_noop("The server answered {status}."),
    gettext_noop("This browser lets nothing be copied here: it wants HTTPS."),
)


def translated_words() -> dict[str, str]:
    """Return the texts that differ in the page's language, keyed by the English ones."""
    if get_language() == "en":
        return {}
    return {word: said for word in SCRIPT_WORDS if (said := gettext(word)) != word}
