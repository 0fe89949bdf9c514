"""What each reranker counts beside the fused score."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("search", "0013_languages")]

    operations = [
        migrations.CreateModel(
            "RerankerWeight",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "name",
                    models.CharField(
                        max_length=300, unique=True, help_text="The model, or the address where none is named."
                    ),
                ),
                (
                    "weight",
                    models.FloatField(
                        help_text="Of its scaled score, beside 1 of the scaled fused score; 0 leaves it out."
                    ),
                ),
                ("questions", models.PositiveIntegerField(help_text="How many it was measured on.")),
                ("gain", models.FloatField(help_text="In mean reciprocal rank, on folds that were left out.")),
                ("fitted_at", models.DateTimeField(auto_now=True)),
            ],
        ),
    ]
