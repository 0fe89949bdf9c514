"""Memberships of spaces that the groups of an identity provider give."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0014_scim")]

    operations = [
        migrations.AddField(
            "SpaceMember",
            "given_by",
            models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="The identity provider. Empty: a manager.",
                max_length=40,
            ),
        ),
    ]
