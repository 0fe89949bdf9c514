"""What the doctor has found and operators were told of."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ops", "0003_key_fingerprint")]

    operations = [
        migrations.CreateModel(
            name="Alert",
            fields=[
                ("finding", models.CharField(max_length=60, primary_key=True, serialize=False)),
                ("found_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
    ]
