"""Searches that people made and kept."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("search", "0011_posting_blocks"),
    ]

    operations = [
        migrations.CreateModel(
            name="PastSearch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("address", models.CharField(max_length=1000)),
                ("text", models.CharField(blank=True, max_length=500)),
                ("used_at", models.DateTimeField()),
                ("saved_at", models.DateTimeField(blank=True, null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "past searches",
                "indexes": [models.Index(fields=["owner", "-used_at"], name="past_search_newest")],
                "constraints": [models.UniqueConstraint(fields=("owner", "address"), name="past_search_unique")],
            },
        ),
    ]
