"""Index expressions that Django does not have."""

from django.contrib.postgres.search import SearchVectorField
from django.db.models import Func


class OwnedWords(Func):
    """A tsvector with its row's owner as an additional lexeme, so that an index over it finds one owner's words alone.

    The space in `owner 7` keeps that lexeme apart from all words. The statement `matching_events` builds it likewise.
    """

    template = "array_to_tsvector(ARRAY['owner ' || owner_id::text]) || %(expressions)s"
    output_field = SearchVectorField()
