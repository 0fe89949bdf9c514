"""Citations: the results of a reply's tools are numbered, and a number in the reply becomes a link to its source.

Numbering continues through the whole conversation, so that one number means one source, for the model and the reader.
Pure. See docs/adr/0055-link-citations-when-stored.md.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

HOW_TO_CITE = "Put a result's cite after what you take from it."
_PLACE = r"/(?:conversations|documents)/[0-9][^\s\"()\\]{0,100}"
_CITE = re.compile(rf'"cite": "\[([0-9]{{1,4}})\]\(({_PLACE})\)"')
_PLACES = re.compile(_PLACE)
_CITED_PLACE = re.compile(rf"\[[0-9]{{1,4}}\]\(({_PLACE})\)")
_NUMBERS = re.compile(r"(?<![\w!\\])\[([0-9]{1,4}(?:, ?[0-9]{1,4}){0,9})\](?![(:])")
_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]*`)", re.DOTALL)


def with_citations(answer: Mapping[str, Any], *, first: int) -> dict[str, Any]:
    """Add a `cite`, `[n](address)`, to each result with an address in a tool's answer, numbered from `first` on."""
    results = answer.get("results")
    if not isinstance(results, list):
        return dict(answer)
    numbered: list[Any] = []
    number = first
    for result in results:
        address = _place_of(result)
        fields = {name: value for name, value in result.items() if name != "cite"}
        numbered.append({"cite": f"[{number}]({address})", **fields} if address else result)
        number += bool(address)
    hint = {"how_to_cite": HOW_TO_CITE} if number > first else {}
    return {**answer, "results": numbered, **hint}


def _place_of(result: Any) -> str:
    """Return the result's place in the archive; the place in its own `cite` takes precedence over its URL."""
    if not isinstance(result, Mapping):
        return ""
    cited = _CITED_PLACE.fullmatch(str(result.get("cite", "")))
    url = str(result.get("url", ""))
    if cited:
        return cited[1]
    return url if _PLACES.fullmatch(url) else ""


def sources_in(texts: Iterable[str]) -> dict[int, str]:
    """Return the addresses by number in tools' answers, including answers that were cut."""
    return {int(number): address for text in texts for number, address in _CITE.findall(text)}


def link_citations(text: str, sources: Mapping[int, str]) -> str:
    """Turn numbers that name sources into Markdown links; code stays unchanged."""
    if not sources:
        return text
    pieces = _CODE.split(text)
    pieces[::2] = [_NUMBERS.sub(lambda match: _linked(match, sources), piece) for piece in pieces[::2]]
    return "".join(pieces)


def _linked(match: re.Match[str], sources: Mapping[int, str]) -> str:
    numbers = [int(number) for number in match[1].split(",")]
    if not all(number in sources for number in numbers):
        return match[0]
    return " ".join(f"[{number}]({sources[number]})" for number in numbers)
