"""The tokens that a model's server counted for an answer, as transcripts and endpoints write them. Pure.

Claude Code repeats the usage of a request on each line of its answer, and Codex reports it once behind several
messages: messages of one request share its id, so that it is counted once. Of four real sessions of Codex the sums
equal the totals in their files.

Prices are not kept: they change, and depend on contracts.

Source: the transcripts; https://docs.anthropic.com/en/api/messages, https://platform.openai.com/docs/api-reference/chat/object,
google-gemini/gemini-cli `chatRecordingService.ts`, BerriAI/litellm.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from convmemory.core.text import storable

MAX_TOKENS = 1_000_000_000  # of one request; larger numbers are errors
REQUEST_CHARS = 100

_INPUT = ("input_tokens", "prompt_tokens", "promptTokenCount", "input")
_OUTPUT = ("output_tokens", "completion_tokens", "candidatesTokenCount", "output")
_CACHED = (
    *("cache_read_input_tokens", "cached_input_tokens", "cached_tokens", "cachedContentTokenCount"),
    *("cached", "cacheRead", "read"),
)
# Anthropic, OpenCode and pi count these apart from the input, Gemini apart from the output; others include them.
_MORE_INPUT = (
    *("cache_creation_input_tokens", "cache_read_input_tokens", "toolUsePromptTokenCount", "tool"),
    *("cacheRead", "cacheWrite", "read", "write"),
)
_MORE_OUTPUT = ("thoughtsTokenCount", "thoughts")
_DETAILS = ("prompt_tokens_details", "input_tokens_details", "cache")
_USAGES = ("usage", "tokens", "usageMetadata")
_LEVELS = ("message", "response")


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one request: `input` includes those that were read from a cache (`cached`)."""

    input: int
    output: int
    cached: int = 0
    request: str = ""

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value or name in ("input", "output")}


def usage_of(value: object, *, request: object = "") -> Usage | None:
    """Return the usage that a server reported in this object; None if it names no tokens."""
    if not isinstance(value, Mapping):
        return None
    details: Mapping[str, Any] = next((value[name] for name in _DETAILS if isinstance(value.get(name), Mapping)), {})
    counts = {
        name: count
        for level in (value, details)
        for name, count in level.items()
        if type(count) is int and 0 <= count <= MAX_TOKENS
    }
    # LiteLLM writes Anthropic's counts beside OpenAI's, which includes them.
    more_input = () if "prompt_tokens" in counts else _MORE_INPUT
    tokens_in = _first(counts, _INPUT) + sum(counts.get(name, 0) for name in more_input)
    tokens_out = _first(counts, _OUTPUT) + sum(counts.get(name, 0) for name in _MORE_OUTPUT)
    if not tokens_in and not tokens_out:
        return None
    named = request or value.get("request")
    name = storable(named)[:REQUEST_CHARS] if isinstance(named, str) else ""
    return Usage(tokens_in, tokens_out, min(_first(counts, _CACHED), tokens_in), name)


def usage_in_lines(raw: bytes) -> Usage | None:
    """Return the usage in the source lines of an answer: of the last line that has one, which is the final count."""
    if not any(f'"{name}"'.encode() in raw for name in _USAGES):
        return None
    for line in reversed(raw.splitlines()):
        for value, request in _usages(line):
            if usage := usage_of(value, request=request):
                return usage
    return None


def _usages(line: bytes) -> Iterator[tuple[object, object]]:
    """Yield what can be the usage in a line, with the id of the message that has it."""
    try:
        value, _ = json.JSONDecoder().raw_decode(line.decode("utf-8", "replace").strip())
    except (ValueError, RecursionError):
        return
    if isinstance(value, Mapping):
        yield from ((value.get(name), "") for name in _USAGES)
        for level in map(value.get, _LEVELS):
            if isinstance(level, Mapping):
                yield from ((level.get(name), level.get("id")) for name in _USAGES)


def _first(counts: Mapping[str, int], names: tuple[str, ...]) -> int:
    return next((counts[name] for name in names if name in counts), 0)
