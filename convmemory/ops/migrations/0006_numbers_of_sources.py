"""Maps of turns and tasks of the index name sources now: what still names conversations goes, the sweep finds the work."""

from django.db import migrations

DROP = [
    "DELETE FROM ops_turnmap",
    "DELETE FROM core_ownertask WHERE func = 'search.tasks.index'",
    "DELETE FROM django_q_task WHERE func = 'search.tasks.index'",
]


class Migration(migrations.Migration):
    dependencies = [
        ("ops", "0005_drop_pickled_tasks"),
        ("core", "0001_owner_tasks"),
        ("search", "0007_sources_and_items"),
    ]

    operations = [migrations.RunSQL(DROP, migrations.RunSQL.noop)]
