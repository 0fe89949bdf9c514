"""Which item vector of a source was stored last, by which a process notices that it must fetch their codes again."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("search", "0017_token_vectors_in_their_rows")]

    operations = [
        migrations.AddField(
            model_name="sourceindex",
            name="newest_vector",
            field=models.PositiveBigIntegerField(
                default=0, db_default=0, help_text="The id of the item vector stored last, even if it is gone."
            ),
        ),
    ]
