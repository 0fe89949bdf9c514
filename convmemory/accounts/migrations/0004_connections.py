"""Keys that programs get by OAuth and renew."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0003_key_limits_and_model_use")]

    operations = [
        migrations.AddField(
            "apikey",
            "client_id",
            models.TextField(blank=True, default="", help_text="The program that got the key by OAuth."),
        ),
        migrations.AddField("apikey", "code_token_hash", models.BinaryField(max_length=32, null=True, unique=True)),
        migrations.AddField("apikey", "refresh_token_hash", models.BinaryField(max_length=32, null=True)),
        migrations.AddField(
            "apikey",
            "renewable_until",
            models.DateTimeField(null=True, blank=True, help_text="Of a key that its program renews."),
        ),
    ]
