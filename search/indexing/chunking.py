"""Splits a long turn into overlapping chunks that fit the embedding model. Pure."""

from collections.abc import Callable, Sequence

# Windows of 6,000 tokens that overlap by 500 for a model with 8,191 tokens; in proportion for other models.
WINDOW_SHARE = 6_000 / 8_191
OVERLAP_SHARE = 500 / 8_191

Offsets = Sequence[tuple[int, int]]


def chunk_text(text: str, *, max_tokens: int, token_offsets: Callable[[str], Offsets]) -> list[str]:
    """Return the whole text if it fits, otherwise overlapping chunks of it, in order.

    `token_offsets` returns the character span of each token of a text.
    """
    offsets = token_offsets(text)
    if len(offsets) <= max_tokens:
        return [text]
    window = max(1, int(max_tokens * WINDOW_SHARE))
    step = max(1, window - int(max_tokens * OVERLAP_SHARE))
    chunks = []
    for start in range(0, len(offsets), step):
        end = min(start + window, len(offsets))
        chunks.append(text[offsets[start][0] : offsets[end - 1][1]])
        if end == len(offsets):
            break
    return chunks
