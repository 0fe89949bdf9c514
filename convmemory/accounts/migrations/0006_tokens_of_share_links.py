from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0005_counted_audit_entries")]

    operations = [
        migrations.AddField(
            model_name="sharelink",
            name="token_encrypted",
            field=models.TextField(
                db_default="", default="", help_text="To copy the link again. Empty in older ones."
            ),
        ),
    ]
