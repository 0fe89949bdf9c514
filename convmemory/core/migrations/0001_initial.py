"""The queue, and the groups of archives."""

import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [  # of the databases of commit 5e9aed6e
        ("core", "0001_owner_tasks"),
        ("core", "0002_owner_positions"),
        ("core", "0003_owner_groups"),
    ]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='OwnerGroup',
            fields=[
                ('archive', models.OneToOneField(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='accounts.archive')),
                ('number', models.PositiveIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='OwnerService',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('served_at', models.DateTimeField()),
                ('archive', models.ForeignKey(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('person', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='OwnerTask',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('task_id', models.UUIDField(default=uuid.uuid4, editable=False)),
                ('key', models.CharField(help_text='The function with its arguments.', max_length=300, unique=True)),
                ('func', models.CharField(max_length=200)),
                ('args', models.JSONField(default=list)),
                ('group', models.CharField(blank=True, default='', max_length=50)),
                ('is_long', models.BooleanField(default=False, help_text='It cannot stop after some seconds.')),
                ('version', models.PositiveBigIntegerField(default=1)),
                ('slices', models.PositiveIntegerField(default=0)),
                ('attempts', models.PositiveSmallIntegerField(default=0, help_text='Since it last got on.')),
                ('asked_at', models.DateTimeField()),
                ('due_at', models.DateTimeField()),
                ('leased_until', models.DateTimeField(blank=True, null=True)),
                ('cluster', models.CharField(blank=True, default='', help_text='Whose worker has it.', max_length=100)),
                ('archive', models.ForeignKey(blank=True, db_column='owner_id', db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('person', models.ForeignKey(blank=True, help_text="The member who asked for it in a space; empty for the owner's own.", null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'waiting task',
                'indexes': [models.Index(fields=['archive', 'slices', '-asked_at'], name='owner_task_next')],
            },
        ),
    ]
