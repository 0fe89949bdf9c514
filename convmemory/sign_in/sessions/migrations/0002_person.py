"""Adds the person, the browser and the last use to sessions, and names the persons of those that exist.

Sessions that have expired are deleted: until now nothing deleted them.
"""

import django.db.models.deletion
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.db import migrations, models
from django.db.models.functions import Now


def name_persons(apps, schema_editor):
    sessions = apps.get_model("sessions", "Session").objects
    sessions.filter(expire_date__lte=Now()).delete()
    for session in sessions.filter(person=None).iterator(chunk_size=1_000):
        if person_id := SessionStore().decode(session.session_data).get("_auth_user_id"):
            sessions.filter(pk=session.pk).update(person_id=person_id)


class Migration(migrations.Migration):
    dependencies = [("sessions", "0001_initial"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.AddField(
            model_name="session",
            name="person",
            field=models.ForeignKey(
                db_constraint=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="session",
            name="user_agent",
            field=models.CharField(db_default="", default="", max_length=300),
        ),
        migrations.AddField(
            model_name="session",
            name="signed_in_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="session",
            name="seen_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.RunPython(name_persons, migrations.RunPython.noop),
    ]
