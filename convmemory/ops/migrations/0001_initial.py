"""Measures, alerts, erasures and archives of everything."""

import convmemory.documents.storage
import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [  # of the databases of commit 5e9aed6e
        ("ops", "0001_measures"),
        ("ops", "0002_erased_users"),
        ("ops", "0002_sweep_runs"),
        ("ops", "0003_erasures"),
        ("ops", "0003_key_fingerprint"),
        ("ops", "0004_index_samples_and_turn_maps"),
        ("ops", "0005_drop_pickled_tasks"),
        ("ops", "0006_numbers_of_sources"),
        ("ops", "0007_own_archives"),
        ("ops", "0008_alerts"),
        ("ops", "0009_known_models"),
        ("ops", "0010_restore_checks"),
    ]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('auth', '0012_alter_user_first_name_max_length'),
        ('embeddings', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Alert',
            fields=[
                ('finding', models.CharField(max_length=60, primary_key=True, serialize=False)),
                ('found_at', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name='Erasure',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('requested_at', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name='IndexSample',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('taken_at', models.DateTimeField(auto_now_add=True, db_index=True)),
                ('turns', models.PositiveBigIntegerField()),
                ('pending', models.PositiveBigIntegerField(help_text='Turns that wait to be indexed.')),
                ('failed', models.PositiveBigIntegerField(help_text='Turns that were given up.')),
                ('queued', models.PositiveIntegerField(help_text='Tasks in the queue.')),
                ('spaces', models.JSONField(default=list)),
                ('reasons', models.JSONField(default=list)),
            ],
        ),
        migrations.CreateModel(
            name='KeyFingerprint',
            fields=[
                ('fingerprint', models.CharField(max_length=32, primary_key=True, serialize=False)),
                ('recorded_at', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name='KnownModel',
            fields=[
                ('name', models.CharField(max_length=200, primary_key=True, serialize=False)),
                ('sha256', models.CharField(max_length=64)),
                ('recorded_at', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name='RestoreCheck',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('checked_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='SweepRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('deep', models.BooleanField(default=False)),
                ('started_at', models.DateTimeField(db_index=True)),
                ('seconds', models.FloatField()),
                ('found', models.JSONField(default=dict)),
                ('fixed', models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name='ErasedUser',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('account', models.BigIntegerField()),
                ('joined_at', models.DateTimeField()),
                ('erased_at', models.DateTimeField(auto_now_add=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('account', 'joined_at'), name='erased_user_unique')],
            },
        ),
        migrations.CreateModel(
            name='Measure',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=50)),
                ('label', models.CharField(blank=True, default='', max_length=120)),
                ('hour', models.DateTimeField(blank=True, null=True)),
                ('count', models.PositiveBigIntegerField(default=0)),
                ('items', models.PositiveBigIntegerField(default=0)),
                ('failures', models.PositiveBigIntegerField(default=0)),
                ('seconds', models.FloatField(default=0)),
                ('buckets', django.contrib.postgres.fields.ArrayField(base_field=models.PositiveBigIntegerField(), size=None)),
            ],
            options={
                'indexes': [models.Index(fields=['hour'], name='ops_measure_hour')],
                'constraints': [models.UniqueConstraint(fields=('name', 'label', 'hour'), name='ops_measure_unique', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='TurnMap',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('computed_at', models.DateTimeField()),
                ('turns', models.PositiveBigIntegerField(help_text='How many the person has, of which `points` is a sample.')),
                ('explained', models.FloatField(help_text='The share of the variance that the plane shows.')),
                ('points', models.JSONField(default=list)),
                ('archive', models.OneToOneField(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('space', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='embeddings.embeddingspace')),
            ],
        ),
        migrations.CreateModel(
            name='OwnArchive',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(choices=[('queued', 'waiting'), ('running', 'being written'), ('done', 'complete'), ('failed', 'failed')], default='queued', max_length=10)),
                ('file', models.FileField(blank=True, default='', max_length=200, storage=convmemory.documents.storage.document_storage, upload_to='')),
                ('size', models.PositiveBigIntegerField(default=0)),
                ('error', models.CharField(blank=True, default='', max_length=500)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('person', models.ForeignKey(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['queued', 'running', 'done', 'failed'])), name='own_archive_state'), models.UniqueConstraint(condition=models.Q(('state__in', ['queued', 'running'])), fields=('person',), name='own_archive_one_at_a_time')],
            },
        ),
    ]
