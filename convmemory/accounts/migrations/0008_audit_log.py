"""The audit log, which begins with the readings of content that were recorded so far."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

ACTIONS = [
    ("read", "Read"), ("exported", "Exported"), ("made", "Made"), ("changed", "Changed"), ("revoked", "Revoked"),
    ("trashed", "Trashed"), ("restored", "Restored"), ("deleted", "Deleted"), ("erased", "Erased"),
    ("signed in", "Signed In"), ("sign-in failed", "Sign In Failed"),
]  # fmt: skip
PERSON = {
    "null": True,
    "on_delete": django.db.models.deletion.SET_NULL,
    "related_name": "+",
    "to": settings.AUTH_USER_MODEL,
}


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0007_share_links"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        # Its policy needs `owner_id`, which the log has no longer.
        migrations.RunSQL(
            "DROP POLICY IF EXISTS owner_alone ON accounts_contentaccess;"
            "DROP POLICY IF EXISTS readers_delete_nothing ON accounts_contentaccess;"
            "ALTER TABLE accounts_contentaccess DISABLE ROW LEVEL SECURITY"
        ),
        migrations.RenameModel("ContentAccess", "AuditEntry"),
        migrations.RenameField("AuditEntry", "reader", "person"),
        migrations.RenameField("AuditEntry", "owner", "about"),
        migrations.AlterField("AuditEntry", "person", models.ForeignKey(**PERSON)),
        migrations.AlterField("AuditEntry", "about", models.ForeignKey(**PERSON)),
        migrations.AlterField("AuditEntry", "created_at", models.DateTimeField(auto_now_add=True, db_index=True)),
        migrations.AlterField(
            "AuditEntry", "what", models.CharField(help_text="The kind and the number of an object.", max_length=200)
        ),
        migrations.AddField(
            "AuditEntry", "action", models.CharField(choices=ACTIONS, default="read", max_length=30),
            preserve_default=False,
        ),
        migrations.AddField(
            "AuditEntry", "surface",
            models.CharField(default="admin", help_text="page, api, agent, admin or command", max_length=10),
            preserve_default=False,
        ),
        migrations.AlterModelOptions(
            name="auditentry",
            options={
                "default_permissions": (),
                "permissions": [("read_content", "Can read other people's content in the admin")],
                "verbose_name": "audit entry",
                "verbose_name_plural": "audit log",
            },
        ),
    ]  # fmt: skip
