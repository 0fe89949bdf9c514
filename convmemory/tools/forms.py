"""The form of the page "What would an agent recall?"."""

from django import forms
from django.utils.translation import gettext_lazy as _

from convmemory.core.config import config
from convmemory.tools.recalling import MAX_TOKENS
from memory.recall import MAX_TOP_K
from search.query import MAX_QUERY_CHARS, MIN_QUERY_CHARS


class RecallForm(forms.Form):
    """A question and an agent's budget for its answer; empty fields take the agent's defaults."""

    query = forms.CharField(
        label=_("Question"),
        min_length=MIN_QUERY_CHARS,
        max_length=MAX_QUERY_CHARS,
        widget=forms.TextInput(attrs={"placeholder": _("How did we fix the deadlock?"), "enterkeyhint": "search"}),
    )
    max_tokens = forms.IntegerField(label=_("Budget in tokens"), min_value=1, max_value=MAX_TOKENS, required=False)
    top_k = forms.IntegerField(label=_("Messages"), min_value=1, max_value=MAX_TOP_K, required=False)
    threshold = forms.FloatField(
        label=_("Least similarity"),
        min_value=0,
        max_value=1,
        required=False,
        widget=forms.NumberInput(attrs={"step": "0.05"}),
    )
    min_relevance = forms.FloatField(
        label=_("Least likelihood"),
        min_value=0,
        max_value=1,
        required=False,
        widget=forms.NumberInput(attrs={"step": "0.05"}),
    )

    @staticmethod
    def defaults() -> dict[str, float]:
        return {
            "max_tokens": config.max_recall_tokens,
            "top_k": config.recall_top_k,
            "threshold": config.recall_threshold,
            "min_relevance": config.recall_min_relevance,
        }

    def values(self) -> dict[str, float]:
        """Return the numbers of a valid form, with defaults for empty fields."""
        return {
            name: given if (given := self.cleaned_data[name]) is not None else default
            for name, default in self.defaults().items()
        }
