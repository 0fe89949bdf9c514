"""The page Recall: it runs the tool's own recall and shows the scores and the budget."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop, pgettext_lazy
from django.views.decorators.http import require_safe

from convmemory.accounts.callers import Access
from convmemory.accounts.pages import PageRequest, archive_choices, in_archive
from convmemory.core.config import config
from convmemory.core.errors import SwitchedOff
from convmemory.embeddings.spaces import token_counter
from convmemory.tools.recall_view import view_recall
from convmemory.tools.recalling import MAX_TOKENS
from memory.context import build_memory_context
from memory.recall import MAX_TOP_K, RecallQuery, recall_archives
from search.query import MAX_QUERY_CHARS, MIN_QUERY_CHARS


class RecallForm(forms.Form):
    """A question and an agent's budget for its answer; empty fields take the agent's defaults."""

    query = forms.CharField(
        label=_("Question"),
        min_length=MIN_QUERY_CHARS,
        max_length=MAX_QUERY_CHARS,
        widget=forms.TextInput(attrs={"placeholder": _("How did we fix the deadlock?"), "enterkeyhint": "search"}),
    )
    max_tokens = forms.IntegerField(
        label=_("Room for the answer, in tokens"), min_value=1, max_value=MAX_TOKENS, required=False
    )
    top_k = forms.IntegerField(label=_("At most this many messages"), min_value=1, max_value=MAX_TOP_K, required=False)
    threshold = forms.FloatField(
        label=_("At least this similar (0 to 1)"),
        min_value=0,
        max_value=1,
        required=False,
        widget=forms.NumberInput(attrs={"step": "0.05"}),
    )
    min_relevance = forms.FloatField(
        label=_("At least this likely to answer (0 to 1)"),
        min_value=0,
        max_value=1,
        required=False,
        widget=forms.NumberInput(attrs={"step": "0.05"}),
    )
    space = forms.ChoiceField(label=pgettext_lazy("a person's or a space's", "Archive"), required=False)

    def __init__(self, *args: Any, spaces: Sequence[Access], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if spaces:
            chosen: Any = self.fields["space"]
            chosen.choices = archive_choices(spaces)
        else:
            del self.fields["space"]

    @staticmethod
    def defaults() -> dict[str, float]:
        """Return the defaults that are numbers: an agent that names no similarity has no threshold."""
        return {
            "max_tokens": config.max_recall_tokens,
            "top_k": config.recall_top_k,
            "min_relevance": config.recall_min_relevance,
        }

    def value(self, name: str) -> float:
        """Return a number of a valid form, or its default."""
        typed: float | None = self.cleaned_data[name]
        return self.defaults()[name] if typed is None else typed


SAID = (
    gettext_noop("Found"),
    gettext_noop("Its answer"),
    gettext_noop("Its question"),
    gettext_noop("Its opening"),
    gettext_noop("The turn before"),
    gettext_noop("came back above already, costs nothing"),
    gettext_noop("User"),
    gettext_noop("Assistant"),
)
"""The texts of `recall_view`, which does not translate: the template looks up their translations."""


@require_safe
@in_archive
def recall_page(request: PageRequest) -> HttpResponse:
    """Show the form, and for `?query=` the answer of the tool `conversation_recall`."""
    usual = RecallForm.defaults()
    typed = {name: value for name, value in request.GET.items() if value}
    # With a space open, that space alone is asked.
    spaces = [] if request.caller.space else request.caller.spaces
    form = RecallForm(usual | typed if "query" in request.GET else None, initial=usual, spaces=spaces)
    context: dict[str, Any] = {"form": form}
    status = HTTPStatus.OK
    if form.is_valid():
        context["nearest"] = urlencode(typed | {"threshold": 0, "min_relevance": 0})
        try:
            max_tokens = int(form.value("max_tokens"))
            query = RecallQuery(
                form.cleaned_data["query"],
                top_k=int(form.value("top_k")),
                threshold=form.cleaned_data["threshold"],
                min_relevance=None if (bar := form.value("min_relevance")) == config.recall_min_relevance else bar,
            )
            chosen = form.cleaned_data.get("space", "")
            recalled_all = recall_archives(caller=request.caller, chosen=chosen, query=query)
            recalled = build_memory_context(recalled_all.messages, max_tokens, count_tokens=token_counter())
            context |= {"found": recalled_all, "view": view_recall(recalled_all.messages, recalled, max_tokens)}
        except SwitchedOff as error:
            context["refused"], status = str(error), HTTPStatus.FORBIDDEN
    elif form.is_bound:
        status = HTTPStatus.UNPROCESSABLE_ENTITY
    return render(request, "tools/recall.html", context, status=status)
