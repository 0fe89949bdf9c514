"""The look-up of equal passages goes by owner, too. Built beside its predecessor without blocking writers."""

from django.conf import settings
from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("memory", "0009_signs_in_blocks_alone"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AddIndexConcurrently(
            "passage", models.Index(fields=["content_hash", "owner"], name="passage_content_owner")
        ),
        RemoveIndexConcurrently("passage", "passage_content"),
    ]
