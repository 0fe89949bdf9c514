"""Keys with an expiry and keys that only read; what people use of the model; no key's name in the admin's log."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import F, Value
from django.db.models.functions import Concat


def forget_names_in_the_log(apps, schema_editor):
    """The log keeps what a row was called when it was changed: of keys that was their name, which is the owner's."""
    entries = apps.get_model("admin", "LogEntry").objects.filter(
        content_type__app_label="accounts", content_type__model="apikey"
    )
    entries.update(object_repr=Concat(Value("API key "), F("object_id")))


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_content_access"),
        ("admin", "0003_logentry_add_action_flag_choices"),
        ("contenttypes", "0002_remove_content_type_name"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="expires_at",
            field=models.DateTimeField(blank=True, help_text="Null: never.", null=True),
        ),
        migrations.AddField(
            model_name="apikey",
            name="read_only",
            field=models.BooleanField(default=False, help_text="Searches and reads; changes nothing."),
        ),
        migrations.CreateModel(
            name="ModelUse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("tokens", models.BigIntegerField(default=0)),
                ("requests", models.PositiveIntegerField(default=0)),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "use of the model",
                "verbose_name_plural": "uses of the model",
                "constraints": [models.UniqueConstraint(fields=("owner", "day"), name="model_use_once_a_day")],
            },
        ),
        migrations.RunPython(forget_names_in_the_log, migrations.RunPython.noop),
    ]
