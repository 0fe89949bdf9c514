"""Two more kinds of entries of the audit log."""

from django.db import migrations, models

ACTIONS = [
    ("read", "Read"), ("exported", "Exported"), ("made", "Made"), ("changed", "Changed"), ("moved", "Moved"),
    ("copied", "Copied"), ("revoked", "Revoked"), ("trashed", "Trashed"), ("restored", "Restored"),
    ("deleted", "Deleted"), ("erased", "Erased"), ("held", "Held"), ("released", "Released"),
    ("signed in", "Signed In"), ("sign-in failed", "Sign In Failed"),
]  # fmt: skip


class Migration(migrations.Migration):
    dependencies = [("accounts", "0012_quotas")]

    operations = [migrations.AlterField("AuditEntry", "action", models.CharField(choices=ACTIONS, max_length=30))]
