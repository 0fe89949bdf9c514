"""Figures keep turns that decide otherwise. Workers count again what is stored, when its home page is next opened."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0007_invitations_by_link"), ("conversations", "0013_outcomes_read_anew")]

    operations = [
        migrations.AddField(model_name="figures", name="points", field=models.JSONField(null=True)),
        migrations.AddIndex(
            model_name="figures",
            index=models.Index(
                condition=models.Q(("points__0__isnull", False)), fields=["archive"], name="figures_with_points"
            ),
        ),
    ]
