"""The values that pass through the context pipeline. Pure: no database, no network.

Token counts are the costs of messages on the wire (`convmemory.context.wire`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from convmemory.conversations.messages.parts import Part, Role

DEFAULT_THRESHOLD = 0.8

CountTokens = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """A message as it may be sent to a model. `message_id` is None for one inserted by a strategy (summary, recall)."""

    message_id: int | None
    position: int
    role: Role
    parts: tuple[Part, ...]
    tokens: int = 0
    turn_number: int | None = None
    summaries: "tuple[SummaryUse, ...]" = ()


@dataclass(frozen=True, slots=True)
class SummaryText:
    """A completed summary of the messages at positions `from_position` to `to_position`, both included."""

    summary_id: int
    from_position: int
    to_position: int
    content: str


PositionRange = tuple[int, int]
"""The first and the last position, both included."""


@dataclass(frozen=True, slots=True)
class SummaryUse:
    """A summary that is sent, and the positions that it represents: those that no later summary covers."""

    summary: SummaryText
    stands_for: tuple[PositionRange, ...]


RecallLeftOut = Callable[[str, Sequence[int], int], str]
"""Returns fenced text from the messages with these ids that concerns a question, within a number of tokens, or ""."""


@dataclass(frozen=True, slots=True)
class StrategyOptions:
    """The limits that strategies use."""

    sliding_messages: int = 40
    tool_output_tokens: int = 300
    resurrection_tokens: int = 1_500


@dataclass(frozen=True, slots=True)
class ContextRecipe:
    """The settings of an agent's requests. Up to the share `threshold` of the window nothing is changed.

    For a stored conversation, a threshold or options of None take the settings' values (`sending.py`).
    """

    window: int
    reply_tokens: int
    system_prompt: str = ""
    strategies: tuple[str, ...] = ("token_budget",)
    tool_definitions: tuple[dict[str, object], ...] = ()
    threshold: float | None = None
    options: StrategyOptions | None = None


@dataclass(frozen=True, slots=True)
class StrategyStep:
    """The effect of one strategy.

    Token counts are those of the messages alone; `summaries` are those that the strategy inserted.
    """

    name: str
    removed_ids: tuple[int, ...]
    shortened_ids: tuple[int, ...]
    added: int
    tokens_before: int
    tokens_after: int
    summaries: tuple[SummaryUse, ...] = ()


@dataclass(frozen=True, slots=True)
class ContextOverflow:
    """The reason why the context cannot be sent, in a sentence that says what to do."""

    message: str
    tokens_needed: int
    window: int


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The context of a model, and the steps that led to it.

    `fixed_tokens` are those of the system prompt, the tool definitions and the space for the reply; `tokens_before` and
    `tokens_after` include them, so both compare with `window`. If `error` is set, the context must not be sent.
    """

    system_prompt: str
    messages: tuple[ContextMessage, ...]
    steps: tuple[StrategyStep, ...]
    tokens_before: int
    tokens_after: int
    fixed_tokens: int
    window: int
    error: ContextOverflow | None = None

    @property
    def strategies_applied(self) -> tuple[str, ...]:
        """Return the names of the strategies that ran, in order; none ran below the threshold."""
        return tuple(step.name for step in self.steps)

    @property
    def removed_ids(self) -> tuple[int, ...]:
        """Return the messages that any strategy left out, in the order of removal."""
        return tuple(number for step in self.steps for number in step.removed_ids)

    @property
    def shortened_ids(self) -> tuple[int, ...]:
        """Return the messages that are sent, but not in full."""
        removed = set(self.removed_ids)
        shortened = dict.fromkeys(number for step in self.steps for number in step.shortened_ids)
        return tuple(number for number in shortened if number not in removed)

    @property
    def alive_ids(self) -> frozenset[int]:
        """Return the stored messages that the model is sent in full."""
        shortened = set(self.shortened_ids)
        return frozenset(
            message.message_id
            for message in self.messages
            if message.message_id is not None and message.message_id not in shortened
        )

    @property
    def was_filtered(self) -> bool:
        """Return whether the context differs from the unchanged conversation."""
        return any(step.removed_ids or step.shortened_ids or step.added for step in self.steps)

    @property
    def fits(self) -> bool:
        return self.error is None
