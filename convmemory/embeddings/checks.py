"""System checks: the settings name a usable model, and it is the active one.

They query the database, so Django runs them only with `migrate` and with `check --database default`.
"""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError

from convmemory.core.errors import EmbedderUnavailable, SettingError
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import default_embedder, space_key


@register(Tags.database)
def check_active_space(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **_: Any
) -> list[CheckMessage]:
    """Return E001 for invalid settings, W001 if `manage.py reembed` is needed, W002 without a model."""
    if "default" not in (databases or ()):
        return []
    try:
        key = space_key(default_embedder().card)
    except SettingError as error:
        return [Error(str(error), id="embeddings.E001")]
    except EmbedderUnavailable as error:
        return [Warning(str(error), id="embeddings.W002")]
    try:
        active = EmbeddingSpace.objects.filter(is_active=True).first()
    except DatabaseError:  # not migrated yet
        return []
    if active is None or all(getattr(active, name) == value for name, value in key.items()):
        return []
    return [
        Warning(
            f"The settings name {key['provider']}/{key['model']} with {key['dimensions']} dimensions, recipe "
            f"{key['recipe_version']}, but what is stored was embedded with {active}, which stays in use.",
            hint="Run `manage.py reembed` to change over, or set the EMBEDDING_ variables to the model in use.",
            id="embeddings.W001",
        )
    ]
