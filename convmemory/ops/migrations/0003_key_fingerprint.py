"""The digest of the SECRET_KEY that a database is used with."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ops", "0002_erased_users")]

    operations = [
        migrations.CreateModel(
            name="KeyFingerprint",
            fields=[
                ("fingerprint", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("recorded_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
    ]
