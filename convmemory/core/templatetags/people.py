"""`for_people` turns a message of the API or of an operation into a sentence of a page.

People on a page cannot run commands or set variables: for them such sentences become "Ask who runs this server.".
Staff, who can, get the message as it is, without its back-ticks.
"""

import re

from django import template
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

register = template.Library()

MAX_MESSAGE_CHARS = 4_000  # of a message; a longer one is not ours
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_SETTING_IN_BRACKETS = re.compile(r" ?\((?:see )?[A-Z][A-Z0-9]{0,30}_[A-Z0-9_]{1,60}(?:=\w{1,20})?\)")
_OF_THE_OPERATOR = re.compile(r"manage\.py|\b[A-Z][A-Z0-9]{0,30}_[A-Z0-9_]{1,60}\b|\bpip install\b")


@register.filter
def for_people(message: object, reader: object = None) -> str:
    """Return the message in words for this reader; HTML, such as a sentence with a link, stays as it is."""
    shown = getattr(message, "message", message)
    if isinstance(shown, SafeString):
        return shown
    text = str(message or "")[:MAX_MESSAGE_CHARS]
    text = (_(text) if text else "").replace("`", "")  # some constants of operations are in the catalogues
    if getattr(reader, "is_staff", False):
        return text
    sentences = _SENTENCE_END.split(_SETTING_IN_BRACKETS.sub("", text))
    kept: list[str] = []
    for sentence in sentences:
        # The sentence, what it says before a colon if the rest is for the operator, or nothing.
        if not _OF_THE_OPERATOR.search(sentence):
            kept.append(sentence)
        else:
            head, colon, _rest = sentence.partition(": ")
            kept.append(f"{head}." if colon and not _OF_THE_OPERATOR.search(head) else "")
    shown = " ".join(filter(None, kept))
    if kept != sentences and "who runs this server" not in shown:
        shown = f"{shown} " + _("Ask who runs this server.")
    return shown
