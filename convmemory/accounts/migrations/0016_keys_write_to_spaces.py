"""Keys that write to the spaces that they name; earlier ones only read them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0015_memberships_by_groups")]

    operations = [
        migrations.AddField(
            "ApiKey",
            "writes_spaces",
            models.BooleanField(
                db_default=False,
                default=False,
                help_text="It also writes to these spaces, as far as the owner's role allows.",
            ),
        ),
    ]
