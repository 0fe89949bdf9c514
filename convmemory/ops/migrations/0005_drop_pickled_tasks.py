"""The queue and its history held pickles, which nothing reads any more; the sweep finds what was still to be done."""

from django.db import migrations

# JSON of arguments begins with a bracket, a signed entry of the queue with the base64 of `{"`.
DROP = [
    "DELETE FROM django_q_task WHERE coalesce(args, '') NOT LIKE '[%' OR coalesce(kwargs, '{') NOT LIKE '{%'",
    "DELETE FROM django_q_ormq WHERE payload NOT LIKE 'eyJ%'",
]


class Migration(migrations.Migration):
    dependencies = [
        ("ops", "0004_index_samples_and_turn_maps"),
        ("django_q", "0019_alter_task_options_alter_ormq_key_alter_ormq_lock_and_more"),
    ]

    operations = [migrations.RunSQL(DROP, migrations.RunSQL.noop)]
