import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# Signs hold no pattern that compression could use, and are read as a whole.
STORE_AS_THEY_ARE = "ALTER TABLE memory_signblock ALTER COLUMN signs SET STORAGE EXTERNAL"


class Migration(migrations.Migration):
    dependencies = [
        ("conversations", "0001_conversations"),
        ("embeddings", "0003_vector_uses"),
        ("memory", "0006_signs_by_kind"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SignBlock",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("places", models.BinaryField()),
                ("signs", models.BinaryField()),
                (
                    "conversation",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="conversations.conversation",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "space",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="embeddings.embeddingspace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["owner", "space"], include=("id",), name="sign_block_owner")
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("conversation", "space", "number"), name="sign_block_unique")
                ],
            },
        ),
        migrations.RunSQL(STORE_AS_THEY_ARE, migrations.RunSQL.noop),
    ]
