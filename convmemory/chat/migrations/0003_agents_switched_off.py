"""Agents that an administrator has switched off, and the permission to reach private addresses."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("chat", "0002_interrupted_for_any_reason"),
    ]

    operations = [
        migrations.AddField(
            model_name="agent",
            name="switched_off_at",
            field=models.DateTimeField(blank=True, help_text="By an administrator; null: in use.", null=True),
        ),
        migrations.AlterModelOptions(
            name="agent",
            options={
                "permissions": [
                    ("use_private_address", "Can have agents ask servers of this machine and of private networks")
                ]
            },
        ),
    ]
