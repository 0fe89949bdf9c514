"""Messages for the context pipeline, one token a word."""

from convmemory.context.pipeline import build_context
from convmemory.context.values import ContextMessage, ContextRecipe, FilterResult, StrategyOptions
from convmemory.conversations.messages.parts import Part, TextPart, ToolCallPart, ToolResultPart


def words(text: str) -> int:
    return len(text.split())


def user(number: int, text: str = "") -> ContextMessage:
    return ContextMessage(100 + number, number, "user", (TextPart(text or f"question {number}"),))


def assistant(number: int, text: str = "", *calls: str) -> ContextMessage:
    parts: list[Part] = [TextPart(text or f"answer {number}")]
    parts += [ToolCallPart(call, "bash", {"command": "ls"}) for call in calls]
    return ContextMessage(100 + number, number, "assistant", tuple(parts))


def tool(number: int, call: str, text: str = "done") -> ContextMessage:
    return ContextMessage(100 + number, number, "tool", (ToolResultPart(call, text),))


def chat(turns: int, size: int = 10) -> list[ContextMessage]:
    """`turns` questions and answers of `size` words each."""
    said = " ".join(["word"] * size)
    return [(assistant if number % 2 else user)(number, said) for number in range(2 * turns)]


def run(messages: list[ContextMessage], *strategies: str, window: int = 200, **values: object) -> FilterResult:
    inputs = {name: values.pop(name) for name in ("summaries", "recall") if name in values}
    if summary := values.pop("summary", None):
        inputs["summaries"] = [summary]
    options = {name: values.pop(name) for name in list(values) if name in StrategyOptions.__slots__}
    recipe = ContextRecipe(
        window=window,
        strategies=strategies,
        options=StrategyOptions(**options),  # type: ignore[arg-type]
        **{"reply_tokens": 0, "threshold": 0.5, **values},  # type: ignore[arg-type]
    )
    return build_context(messages=messages, recipe=recipe, count_tokens=words, **inputs)  # type: ignore[arg-type]


def positions(result: FilterResult) -> list[int]:
    return [message.position for message in result.messages]
