"""An index that says when an owner's items were written: their rows are wide, and questions name times."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("search", "0014_reranker_weights")]

    operations = [
        AddIndexConcurrently(
            model_name="item",
            index=models.Index(fields=["owner", "source", "number"], include=["created_at"], name="item_moments"),
        ),
    ]
