"""The ledger of erased users, which a restore applies."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ops", "0001_initial")]
    operations = [
        migrations.CreateModel(
            name="ErasedUser",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("account", models.BigIntegerField()),
                ("joined_at", models.DateTimeField()),
                ("erased_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("account", "joined_at"), name="erased_user_unique")],
            },
        ),
    ]
