from django.conf import settings
from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("memory", "0008_pack_signs"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="passage",
            index=models.Index(fields=["owner", "space", "kind"], name="passage_owner"),
        ),
        RemoveIndexConcurrently(model_name="passage", name="passage_owner_signs"),
        migrations.RemoveField(model_name="passage", name="signs"),
    ]
