"""The tables of token vectors and of passages set aside go: from now on passages of what is in the trash stay in place.

Those of objects that are in the trash already are computed again when they are put back.
"""

from django.db import migrations, models

TYPES = "SELECT id FROM django_content_type WHERE app_label = 'search' AND model IN ('tokenvectors', 'setasidepassage')"
PERMISSIONS = f"SELECT id FROM auth_permission WHERE content_type_id IN ({TYPES})"
FORGET = [
    f"DELETE FROM auth_group_permissions WHERE permission_id IN ({PERMISSIONS})",
    f"DELETE FROM auth_user_user_permissions WHERE permission_id IN ({PERMISSIONS})",
    f"DELETE FROM auth_permission WHERE content_type_id IN ({TYPES})",
    f"DELETE FROM django_content_type WHERE id IN ({TYPES})",
]


class Migration(migrations.Migration):
    dependencies = [("search", "0007_tokens_of_passages")]

    operations = [
        migrations.AlterField(
            "passage",
            "kind",
            models.PositiveSmallIntegerField(
                choices=[
                    (0, "User"), (1, "Assistant"), (2, "Thinking"), (3, "Tool"), (4, "Tool call"), (5, "Document"),
                    (6, "System prompt"), (7, "Outside of turns"),
                    (8, "Of an object that came from another archive and is not indexed yet"),
                ]
            ),
        ),
        migrations.DeleteModel("TokenVectors"),
        migrations.DeleteModel("SetAsidePassage"),
        migrations.RunSQL(FORGET, migrations.RunSQL.noop, hints={"shared": True}),
    ]
