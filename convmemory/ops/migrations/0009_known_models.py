"""What the files of local models were when they were first used."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ops", "0008_alerts")]

    operations = [
        migrations.CreateModel(
            name="KnownModel",
            fields=[
                ("name", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("sha256", models.CharField(max_length=64)),
                ("recorded_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
    ]
