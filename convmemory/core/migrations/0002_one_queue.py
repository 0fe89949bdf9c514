"""One queue for the tasks of owners and of the installation, in turns by person and owner; django-q2's own is emptied."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("core", "0001_initial"),
        ("django_q", "0019_alter_task_options_alter_ormq_key_alter_ormq_lock_and_more"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterField(
            model_name="ownertask",
            name="owner",
            field=models.ForeignKey(
                blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="ownertask",
            name="person",
            field=models.ForeignKey(
                blank=True, help_text="The member who asked for it in a space; nobody for the owner's own.", null=True,
                on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.DeleteModel(name="OwnerService"),
        migrations.CreateModel(
            name="OwnerService",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("served_at", models.DateTimeField()),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        # Tickets of tasks that are rows of core_ownertask, and tasks that the schedules and sweeps enqueue again.
        migrations.RunSQL("DELETE FROM django_q_ormq", migrations.RunSQL.noop),
        # The function convmemory_waiting_tasks stays: web processes of the earlier version call it until they are replaced.
    ]
