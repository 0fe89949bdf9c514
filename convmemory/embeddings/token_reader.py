"""A model's own tokenizer: turns texts into sequences of ids, with the model's special tokens and prompt."""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convmemory.core.errors import EmbedderUnavailable
from convmemory.embeddings.embedder import TokenIds, Tokens
from convmemory.embeddings.model_folder import model_file

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

PROBE = "a"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_PIECE_OF_WORD = re.compile("\\w|\ufffd")  # some tokens are part of a letter's bytes: U+FFFD


class TokenSequence(NamedTuple):
    """A text as the model reads it: `ids` (t,), cut; its own tokens, without the prompt's, are `ids[start:stop]`."""

    ids: list[int]
    start: int
    stop: int


class TokenReader:
    """Tokenizes texts for one model. Thread-safe."""

    def __init__(self, tokenizer: "Tokenizer", *, max_sequence: int) -> None:
        """Configure `tokenizer`; `max_sequence` includes special tokens and prompts."""
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
        self._tokenizer = tokenizer
        self._max_sequence = max_sequence
        special = tokenizer.encode(PROBE).special_tokens_mask
        self._before = special.index(0)
        self._after = special[::-1].index(0)

    @property
    def special_tokens(self) -> int:
        """The number of special tokens around each text."""
        return self._before + self._after

    def prompt_tokens(self, prompt: str) -> int:
        """Return the number of tokens that a prompt takes before an ordinary text."""
        return self._own_start(self._tokenizer.encode(prompt + PROBE), prompt) - self._before

    def sequences(self, texts: Sequence[str], prompt: str) -> list[TokenSequence]:
        """Return each text as the sequence after the prompt, with its special tokens."""
        sequences: list[TokenSequence] = []
        for encoding in self._encoded(texts, prompt):
            ids = encoding.ids
            start = self._own_start(encoding, prompt)
            limit = self._max_sequence
            if len(ids) > limit:
                kept = limit - self._after
                ids = [*ids[:kept], *ids[len(ids) - self._after :]]
            stop = len(ids) - self._after
            sequences.append(TokenSequence(ids, min(start, stop), stop))
        return sequences

    def counts(self, texts: Sequence[str], prompt: str) -> list[int]:
        """Return the number of each text's own tokens, without cutting it."""
        encodings = self._encoded(texts, prompt)
        return [len(encoding.ids) - self._after - self._own_start(encoding, prompt) for encoding in encodings]

    def tokens(self, text: str, prompt: str) -> Tokens:
        """Return all tokens of a text that follows the prompt, with their offsets in the text alone."""
        encoding = self._tokenizer.encode(prompt + encodable(text))
        text_span = slice(self._own_start(encoding, prompt), len(encoding.ids) - self._after)
        spans = encoding.offsets[text_span]
        length = len(prompt)
        return Tokens(
            ids=np.array(encoding.ids[text_span], dtype=np.int32),
            spans=[(max(0, start - length), max(0, end - length)) for start, end in spans] if length else spans,
        )

    def are_words(self, token_ids: TokenIds) -> NDArray[np.bool_]:
        """Return for each token (t,) whether it is a word or a piece of one."""
        is_word: NDArray[np.bool_] = self._words[token_ids]
        return is_word

    @cached_property
    def _words(self) -> NDArray[np.bool_]:
        """For each token of the vocabulary, true if it is a word or a piece of one."""
        size = max(self._tokenizer.get_vocab().values()) + 1
        texts = self._tokenizer.decode_batch([[number] for number in range(size)], skip_special_tokens=False)
        return np.array([_PIECE_OF_WORD.search(text) is not None for text in texts], np.bool_)

    def _encoded(self, texts: Sequence[str], prompt: str) -> "list[Encoding]":
        encode = self._tokenizer.encode_batch if prompt else self._tokenizer.encode_batch_fast  # without offsets
        return encode([prompt + encodable(text) for text in texts])

    def _own_start(self, encoding: "Encoding", prompt: str) -> int:
        """Return the first token that reaches beyond the prompt."""
        start, last = self._before, len(encoding.ids) - self._after
        # The prompt is tokenized together with the text, because tokenizers merge across the border.
        if prompt:
            while start < last:
                span = encoding.token_to_chars(start)  # some tokens have none
                if span and span[1] > len(prompt):
                    break
                start += 1
        return start


def open_tokenizer(folder: Path) -> "Tokenizer":
    """Return the tokenizer of the model in `folder`.

    Raises:
        EmbedderUnavailable: `tokenizer.json` is missing or cannot be read.
    """
    path = model_file(folder, "tokenizer.json")
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise EmbedderUnavailable(f"{path} cannot be read: {error}.") from error


def encodable(text: str) -> str:
    """Return `text` with lone surrogates, which the tokenizer refuses, replaced; its length is unchanged."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)
