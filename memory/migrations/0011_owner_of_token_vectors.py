"""Token vectors are looked up by their owner, too."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

FILL = """
UPDATE memory_passagetokens AS t
SET owner_id = p.owner_id
FROM memory_passage AS p
WHERE p.id = t.passage_id AND t.owner_id IS NULL;
"""


def owner(*, null: bool) -> models.ForeignKey:
    return models.ForeignKey(
        null=null, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL
    )


class Migration(migrations.Migration):

    dependencies = [
        ('memory', '0010_passages_by_content_and_owner'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField('passagetokens', 'owner', owner(null=True)),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.AlterField('passagetokens', 'owner', owner(null=False)),
    ]
