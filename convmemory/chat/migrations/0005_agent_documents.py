import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("chat", "0004_running_reply_of_an_owner"),
        ("documents", "0001_documents"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AgentDocument",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("agent", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="chat.agent")),
                ("document", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="documents.document")),
                ("owner", models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL)),
            ],
            options={
                "indexes": [models.Index(fields=["owner", "agent"], name="agent_document_owner")],
                "constraints": [models.UniqueConstraint(fields=("agent", "document", "owner"), name="agent_document_unique")],
            },
        ),
    ]
