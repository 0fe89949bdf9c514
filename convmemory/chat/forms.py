"""The form of an agent. `agents.py` checks the values."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from convmemory.accounts.callers import Caller
from convmemory.chat.addresses import may_use_private_addresses
from convmemory.chat.agents import has_endpoint
from convmemory.chat.models import Agent
from convmemory.context.strategies import STRATEGIES
from convmemory.tools.registry import TOOLS, chat_tools

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

PUBLIC_EXAMPLE, LOCAL_EXAMPLE = "https://models.example/v1", "http://127.0.0.1:11434/v1 (Ollama)"
STRATEGY_LABELS: Mapping[str, "StrOrPromise"] = {
    "none": _("Leave everything in, and fail where it does not fit"),
    "token_budget": _("Leave the oldest messages out"),
    "summary_boundary": _("Put summaries in the place of what they sum up"),
    "sliding_window": _("Keep only the latest turns"),
    "tool_output_trim": _("Shorten the output of tools"),
    "resurrection": _("Bring back what matters for the question"),
}
TOOL_LABELS: Mapping[str, "StrOrPromise"] = {
    "ConversationSearch": _("Search your conversations"),
    "search_chat_history": _("Search for similar questions"),
    "conversation_recall": _("Recall what was said"),
    "read_conversation": _("Read a conversation"),
    "list_conversations": _("List your conversations"),
    "document_search": _("Search documents that are attached"),
    "search_events": _("Search the event logs of agents"),
    "conversation_ask": _("Answer one question from your conversations"),
}


ADVANCED = ("context_window", "reply_tokens", "temperature", "context_strategies")


class AgentForm(forms.Form):
    """All fields of an agent; the key can be set and is never shown."""

    name = forms.CharField(label=_("Name"), max_length=100)
    system_prompt = forms.CharField(label=_("System prompt"), required=False, widget=forms.Textarea(attrs={"rows": 6}))
    base_url = forms.CharField(
        required=False,
        max_length=500,
        label=_("Endpoint"),
    )
    api_key = forms.CharField(
        required=False,
        label=_("Key of the endpoint"),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=_("Stored encrypted, never shown. Empty: unchanged, or deleted if the endpoint is another server."),
    )
    model = forms.CharField(
        required=False,
        label=_("Model"),
        max_length=200,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    context_window = forms.IntegerField(
        required=False, label=_("Context window"), help_text=_("In tokens. Empty: the server's own.")
    )
    reply_tokens = forms.IntegerField(
        required=False, label=_("Reply limit"), help_text=_("The longest reply, in tokens.")
    )
    temperature = forms.FloatField(
        required=False, label=_("Temperature"), help_text=_("0 to 2. Empty: the endpoint's own.")
    )
    tools = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    context_strategies = forms.MultipleChoiceField(
        required=False,
        label=_("When a conversation grows too long"),
        widget=forms.CheckboxSelectMultiple,
        help_text=_("They run in this order. None: the oldest messages are left out until the rest fits."),
    )

    def __init__(self, *args: Any, caller: Caller, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        example = LOCAL_EXAMPLE if may_use_private_addresses(caller) else PUBLIC_EXAMPLE
        otherwise = _("Empty: the server's own.") if has_endpoint(None, caller=caller) else ""
        address = gettext("Any OpenAI-compatible address, such as %(example)s.") % {"example": example}
        self.fields["base_url"].help_text = f"{address} {otherwise}".strip()
        self.fields["model"].help_text = otherwise
        offered = {tool.name for tool in chat_tools()}
        offered |= set(self.initial.get("tools", ()))  # the agent keeps tools that a setting turns off now
        choices = [(tool.name, TOOL_LABELS.get(tool.name, tool.name)) for tool in TOOLS if tool.name in offered]
        self.fields["tools"].choices = choices  # type: ignore[attr-defined]
        # The agent's strategies first, in its order, which the form preserves.
        names = dict.fromkeys([*self.initial.get("context_strategies", ()), *STRATEGIES])
        self.fields["context_strategies"].choices = [  # type: ignore[attr-defined]
            (name, STRATEGY_LABELS.get(name, name)) for name in names if name in STRATEGIES
        ]

    def main_fields(self) -> list[forms.BoundField]:
        """Return the fields that every agent needs, in the order of the form."""
        return [field for field in self if field.name not in ADVANCED]

    def advanced_fields(self) -> list[forms.BoundField]:
        """Return the fields that the page folds."""
        return [field for field in self if field.name in ADVANCED]

    def has_advanced_error(self) -> bool:
        """Return whether a folded field was refused."""
        return any(field.errors for field in self.advanced_fields())

    def values(self) -> dict[str, Any]:
        """Return the arguments for `agents.create_agent` and `change_agent`."""
        values = dict(self.cleaned_data)
        if not values["api_key"]:
            del values["api_key"]
        return values


def initial_of(agent: Agent) -> dict[str, Any]:
    """Return the agent's values for the form."""
    names = ("name", "system_prompt", "base_url", "model", "context_window", "reply_tokens", "temperature", "tools")
    return {name: getattr(agent, name) for name in names} | {"context_strategies": list(agent.context_strategies)}
