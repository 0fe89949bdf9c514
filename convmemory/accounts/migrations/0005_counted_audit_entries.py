from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0004_addresses")]

    operations = [
        migrations.AlterField(
            model_name="legalhold",
            name="conversation_id",
            field=models.BigIntegerField(
                blank=True, help_text="Empty: all of the archive. What a person wrote in spaces is in these.", null=True
            ),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="times",
            field=models.PositiveIntegerField(
                help_text="How often it happened in that hour, of acts that callers can repeat at will. Null: once.",
                null=True,
            ),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(
                condition=models.Q(("times__isnull", False)),
                fields=["what", "created_at"],
                name="audit_entry_counted",
            ),
        ),
    ]
