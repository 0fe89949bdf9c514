"""Keys name the spaces that they read; earlier ones read none."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0009_legal_holds")]

    operations = [
        migrations.AddField(
            "ApiKey",
            "space_ids",
            django.contrib.postgres.fields.ArrayField(
                models.IntegerField(),
                blank=True,
                db_default=[],
                default=list,
                help_text="The spaces that it reads, if the owner is a member. Null: all.",
                null=True,
                size=None,
            ),
        ),
    ]
