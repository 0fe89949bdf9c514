"""Measures, runs of the sweep, erasures, samples of the index, maps of turns and own archives."""

import convmemory.documents.storage
import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("ops", "0001_measures"),
        ("ops", "0002_sweep_runs"),
        ("ops", "0003_erasures"),
        ("ops", "0004_index_samples_and_turn_maps"),
        ("ops", "0005_drop_pickled_tasks"),
        ("ops", "0006_numbers_of_sources"),
        ("ops", "0007_own_archives"),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('embeddings', '0001_initial'),
    ]

    operations = [
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
            name='OwnArchive',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(choices=[('queued', 'waiting'), ('running', 'being written'), ('done', 'complete'), ('failed', 'failed')], default='queued', max_length=10)),
                ('file', models.FileField(blank=True, default='', max_length=200, storage=convmemory.documents.storage.document_storage, upload_to='')),
                ('size', models.PositiveBigIntegerField(default=0)),
                ('error', models.CharField(blank=True, default='', max_length=500)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['queued', 'running', 'done', 'failed'])), name='own_archive_state'), models.UniqueConstraint(condition=models.Q(('state__in', ['queued', 'running'])), fields=('owner',), name='own_archive_one_at_a_time')],
            },
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
            name='TurnMap',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('computed_at', models.DateTimeField()),
                ('turns', models.PositiveBigIntegerField(help_text='How many the person has, of which `points` is a sample.')),
                ('explained', models.FloatField(help_text='The share of the variance that the plane shows.')),
                ('points', models.JSONField(default=list)),
                ('owner', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('space', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='embeddings.embeddingspace')),
            ],
        ),
    ]
