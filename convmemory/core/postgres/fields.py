"""Index expressions and lookups that Django does not have."""

from typing import Any

from django.contrib.postgres.search import SearchVectorField
from django.db.models import CharField, Func, Lookup, TextField

from convmemory.core.folding import folded


class OwnedWords(Func):
    """A tsvector with its row's owner as an additional lexeme, so that an index over it finds one owner's words alone.

    The space in `owner 7` keeps that lexeme apart from all words. The statement `matching_events` builds it likewise.
    """

    template = "array_to_tsvector(ARRAY['owner ' || owner_id::text]) || %(expressions)s"
    output_field = SearchVectorField()


class FoldedContains(Lookup):
    """`title__folded_contains="reunion"`: the column contains the text, whatever accents and case both have."""

    lookup_name = "folded_contains"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        column, parameters = self.process_lhs(compiler, connection)
        return f"strpos(convmemory_folded({column}), %s) > 0", (*parameters, folded(self.rhs))


for field in (CharField, TextField):
    field.register_lookup(FoldedContains)
