"""The database's indexes: whether they exist, are valid, and are used by the queries of a search."""

from collections.abc import Iterator
from functools import partial

from django.apps import apps
from django.db import connection, models

from convmemory.core import groups
from convmemory.core.acting import in_group, schema_owner
from convmemory.core.errors import EmbedderUnavailable
from convmemory.core.postgres.layout import group_named, schema_of
from convmemory.core.sql import load_sql
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from convmemory.ops.doctor.findings import Area, Fact, Finding, Severity
from search import vector_index
from search.retrieval import plans

PROJECT_APPS = ("convmemory", "memory", "search", "summaries")
OURS = "passage_codes_"
# With fewer passages, the statistics of freshly filled tables decide between plans of equal speed.
PLANNED_PASSAGES = 1_000


def facts() -> Iterator[Fact]:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.doctor", "largest_indexes"), [groups.schemas()])
        for name, table, size, scans in cursor.fetchall():
            yield name, f"on {table}, {size}, used {scans:,} times"


def check_validity() -> Iterator[Finding]:
    with schema_owner(), connection.cursor() as cursor:  # others are not shown which indexes are being built
        cursor.execute(load_sql("convmemory.ops.doctor", "invalid_indexes"), [groups.schemas()])
        found = cursor.fetchall()
    for schema, index in found:
        mine, name = index.startswith(OURS), groups.place_name(schema, index)
        yield Finding(
            "indexes.invalid",
            Severity.ERROR,
            f"The index {name} is invalid, most likely left by an interrupted build: it slows down writes only.",
            "Run `manage.py doctor --fix`, or in the database: "
            + (f"DROP INDEX CONCURRENTLY {name}" if mine else f"REINDEX INDEX CONCURRENTLY {name}"),
            partial(_rebuild, schema, index),
        )


def check_declared() -> Iterator[Finding]:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.doctor", "index_names"), [groups.schemas()])
        present = set(cursor.fetchall())
    for model in apps.get_models():
        if model.__module__.partition(".")[0] not in PROJECT_APPS:
            continue
        for group in groups.groups_of(model):
            schema = groups.schemas()[0] if group is None else schema_of(group)
            for index in model._meta.indexes:
                if (schema, index.name) not in present:
                    yield _missing(model, groups.place_name(schema, index.name), partial(_create, model, index, group))
            for constraint in model._meta.constraints:
                if isinstance(constraint, models.UniqueConstraint) and (schema, constraint.name) not in present:
                    yield _missing(model, groups.place_name(schema, constraint.name), None)


def check_vector_index() -> Iterator[Finding]:
    space = active_space()
    if not vector_index.lacks_passage_index(space):
        return

    def build() -> str:
        vector_index.ensure_passage_index(space)
        return f"Built the index {vector_index.index_name(space)}."

    yield Finding(
        "indexes.no-vector-index",
        Severity.WARNING,
        "Somebody's archive has outgrown scans, and the active space has no vector index: searches are slow.",
        "A worker builds it within the hour; `manage.py doctor --fix` builds it now.",
        build,
    )


def check_plans() -> Iterator[Finding]:
    space = active_space()
    try:
        bad = plans.queries_without_index(space, at_least=PLANNED_PASSAGES)
    except EmbedderUnavailable:  # reported by the models area
        return
    for name, expected in bad.items():
        yield Finding(
            "indexes.plan",
            Severity.ERROR,
            f"The query {name} of every search does not use the index {expected}.",
            f"Check that {expected} exists and is valid, then run ANALYZE; report it if that does not help.",
        )


def _missing(model: type[models.Model], name: str, fix: "partial[str] | None") -> Finding:
    return Finding(
        "indexes.missing",
        Severity.ERROR,
        f"The index {name} of {model._meta.db_table} is missing: it was dropped, or a restore was incomplete.",
        "Run `manage.py doctor --fix`, or restore the database.",
        fix,
    )


def _create(model: type[models.Model], index: models.Index, group: int | None) -> str:
    with in_group(group), connection.schema_editor() as editor:
        editor.add_index(model, index)
    return f"Created the index {index.name}."


def _rebuild(schema: str, name: str) -> str:
    quoted = ".".join(map(connection.ops.quote_name, (schema, name)))
    if not name.startswith(OURS):
        with connection.cursor() as cursor:
            cursor.execute(f"REINDEX INDEX CONCURRENTLY {quoted}")
        return f"The index {name} is built again."
    space = EmbeddingSpace.objects.filter(pk=name.removeprefix(OURS), is_active=True).first()
    with in_group(group_named(schema)):
        if space and vector_index.ensure_passage_index(space, even_if_small=True):
            return f"The index {name} is built again."
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {quoted}")
    return f"Dropped the index {name}."


AREA = Area("indexes", facts, (check_validity, check_declared, check_vector_index, check_plans))
