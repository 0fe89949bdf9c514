"""Column types and index expressions that neither Django nor pgvector's own fields have."""

from typing import Any

from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Func

from convmemory.core.postgres.fields import OwnedWords

__all__ = ["BitsField", "OwnedWords", "words_of"]

TITLE_WORDS = r"""to_tsvector(
    'convmemory',
    convmemory_folded(%(expressions)s) || ' '
    || regexp_replace(convmemory_folded(%(expressions)s), '(\w)[''.-](?=\w)', '\1', 'g')
)"""


class BitsField(models.TextField):  # type: ignore[type-arg]  # generic in the stubs only
    """A column of PostgreSQL's `bit varying`, read as a string of 0 and 1."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "bit varying"


def words_of(text: str) -> models.GeneratedField:
    """Return a stored generated column with the stemmed words of the column `text`, folded, and without separators."""
    words: Any = Func(F(text), template=TITLE_WORDS, output_field=SearchVectorField())
    return models.GeneratedField(expression=words, output_field=SearchVectorField(), db_persist=True)
