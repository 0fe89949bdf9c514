"""What a message holds is a column, and `has:` and `model:` are answered from indexes."""

from django.db import migrations, models

from convmemory.core.sql import load_sql

DROP = "DROP FUNCTION convmemory_contents(jsonb)"


class Migration(migrations.Migration):
    dependencies = [("conversations", "0011_extracted_titles")]

    operations = [
        migrations.RunSQL(load_sql("convmemory.conversations", "make_contents_function"), DROP),
        migrations.AddField(
            model_name="message",
            name="contents",
            field=models.GeneratedField(
                db_persist=True,
                expression=models.Func(models.F("parts"), function="convmemory_contents"),
                output_field=models.SmallIntegerField(),
            ),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(fields=["archive", "contents", "conversation"], name="message_contents"),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(fields=["archive", "model", "conversation"], name="message_model"),
        ),
    ]
