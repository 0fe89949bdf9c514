import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

ACTIONS = [
    ("read", "Read"), ("exported", "Exported"), ("made", "Made"), ("changed", "Changed"), ("revoked", "Revoked"),
    ("trashed", "Trashed"), ("restored", "Restored"), ("deleted", "Deleted"), ("erased", "Erased"), ("held", "Held"),
    ("released", "Released"), ("signed in", "Signed In"), ("sign-in failed", "Sign In Failed"),
]  # fmt: skip


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0008_audit_log"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterField("AuditEntry", "action", models.CharField(choices=ACTIONS, max_length=30)),
        migrations.CreateModel(
            name="LegalHold",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "conversation_id",
                    models.BigIntegerField(blank=True, help_text="Empty: all that the account has.", null=True),
                ),
                (
                    "reason",
                    models.CharField(help_text="The person's archive of everything contains it.", max_length=500),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("lifted_at", models.DateTimeField(editable=False, help_text="Empty: it is in force.", null=True)),
                ("lift_reason", models.CharField(default="", max_length=500, verbose_name="reason to lift it")),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={"verbose_name": "legal hold"},
        ),
    ]
