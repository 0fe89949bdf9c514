"""Exchanges that are recorded after their own follow-up, and requests that continue a response by its id."""

from django.db import migrations, models
from django.db.models import Q
from django.utils import timezone


class Migration(migrations.Migration):
    dependencies = [("chat", "0005_agent_documents")]

    operations = [
        migrations.AddField("capturedhistory", "recent_hashes", models.BinaryField(default=b"")),
        migrations.AddField(
            "capturedhistory", "response_id", models.CharField(max_length=200, blank=True, default="")
        ),
        migrations.AddField(
            "capturedhistory",
            "recorded_at",
            models.DateTimeField(auto_now=True, default=timezone.now),
            preserve_default=False,
        ),
        migrations.AddIndex(
            "capturedhistory", models.Index(fields=["owner", "recorded_at"], name="captured_history_recent")
        ),
        migrations.AddIndex(
            "capturedhistory",
            models.Index(fields=["owner", "response_id"], name="captured_response", condition=~Q(response_id="")),
        ),
    ]
