"""From commit 7f45b3b: archives that owners ask for; tasks and maps that no code reads any more are deleted.

The queue and its history held pickles, tasks of the index and maps named conversations where they name sources now. The
sweep finds the work that was left to do.
"""

from importlib import import_module

from django.db import migrations

from convmemory.core.upgrading import create_tables, know_models, upgrade

INITIAL = import_module("convmemory.ops.migrations.0001_initial").Migration
# JSON of arguments begins with a bracket, a signed entry of the queue with the base64 of `{"`.
FORGET = """
DELETE FROM django_q_task
WHERE coalesce(args, '') NOT LIKE '[%' OR coalesce(kwargs, '{') NOT LIKE '{%' OR func = 'search.tasks.index';
DELETE FROM django_q_ormq WHERE payload NOT LIKE 'eyJ%';
DELETE FROM ops_turnmap;
SET CONSTRAINTS ALL IMMEDIATE;
"""


class Migration(migrations.Migration):
    dependencies = [
        *INITIAL.dependencies,
        ("django_q", "0019_alter_task_options_alter_ormq_key_alter_ormq_lock_and_more"),
    ]
    operations = upgrade(
        INITIAL,
        last="0004_index_samples_and_turn_maps",
        operations=[
            migrations.RunSQL(FORGET),
            know_models(INITIAL, "Erasure", "IndexSample", "Measure", "SweepRun", "TurnMap"),
            *create_tables(INITIAL, "OwnArchive"),
        ],
    )
