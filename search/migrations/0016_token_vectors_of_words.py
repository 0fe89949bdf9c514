"""New sources keep the token vectors of words alone; the sweep brings the others up to that."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("search", "0015_item_moments")]

    operations = [
        migrations.AlterField(
            "source",
            "layout",
            models.PositiveSmallIntegerField(
                db_default=3,
                default=3,
                help_text="The version of what is derived from its items' rows; an old one is brought up to the newest.",
            ),
        ),
    ]
