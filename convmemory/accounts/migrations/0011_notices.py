"""Mail that is not about accounts, and who wants it."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

KINDS = [("invitation", "Invitation"), ("password_reset", "Password Reset"), ("notice", "Notice")]
CHOICES = [
    ("none", "Never"),
    ("long", "If it took longer than five minutes"),
    ("all", "Always, also if a program sent the import"),
]


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0010_keys_read_spaces"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField("Mail", "subject", models.CharField(blank=True, db_default="", default="", max_length=200)),
        migrations.AddField("Mail", "text", models.TextField(blank=True, db_default="", default="")),
        migrations.AlterField("Mail", "kind", models.CharField(choices=KINDS, max_length=20)),
        migrations.AlterField(
            "Mail",
            "language",
            models.CharField(blank=True, default="", help_text="Empty: of a notice.", max_length=10),
        ),
        migrations.CreateModel(
            name="MailChoice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("notices", models.CharField(choices=CHOICES, default="long", max_length=10)),
                ("language", models.CharField(max_length=10)),
                (
                    "owner",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={"default_permissions": ()},
        ),
    ]
