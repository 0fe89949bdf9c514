"""The tables that commit 7f45b3b made, known as 0010_stars_tags_and_figures.py leaves them: `summaries` needs them."""

from importlib import import_module

from django.db import migrations

from convmemory.core.upgrading import know_models

INITIAL = import_module("convmemory.conversations.migrations.0001_initial").Migration


class Migration(migrations.Migration):
    dependencies = INITIAL.dependencies
    operations = [know_models(INITIAL, "Conversation", "Message", "MessageSource", "Event")]
