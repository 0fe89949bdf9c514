"""From commit 7f45b3b: keys with an expiry, keys that only read, use of models; no key's name in the admin's log."""

from importlib import import_module

from django.db import migrations
from django.db.models import F, Value
from django.db.models.functions import Concat

from convmemory.core.upgrading import create_tables, know_models, upgrade

INITIAL = import_module("convmemory.accounts.migrations.0001_initial").Migration
LIMIT_KEYS = """
ALTER TABLE accounts_apikey
    ADD COLUMN expires_at timestamp with time zone,
    ADD COLUMN read_only boolean DEFAULT false NOT NULL;
ALTER TABLE accounts_apikey ALTER COLUMN read_only DROP DEFAULT;
"""


def forget_names_in_the_log(apps, schema_editor):
    """Replace the names of keys, which belong to their owners, in the log: it keeps what a changed row was called."""
    entries = apps.get_model("admin", "LogEntry").objects.filter(
        content_type__app_label="accounts", content_type__model="apikey"
    )
    entries.update(object_repr=Concat(Value("API key "), F("object_id")))


class Migration(migrations.Migration):
    dependencies = [
        *INITIAL.dependencies,
        ("admin", "0003_logentry_add_action_flag_choices"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]
    operations = upgrade(
        INITIAL,
        last="0002_content_access",
        operations=[
            migrations.RunSQL(LIMIT_KEYS),
            know_models(INITIAL, "ApiKey", "ContentAccess"),
            *create_tables(INITIAL, "ModelUse"),
            migrations.RunPython(forget_names_in_the_log),
        ],
    )
