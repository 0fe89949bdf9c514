"""Summaries of conversations."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [  # of the databases of commit 5e9aed6e
        ("summaries", "0001_conversation_summaries"),
    ]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('conversations', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='ConversationSummary',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('from_position', models.PositiveIntegerField()),
                ('to_position', models.PositiveIntegerField()),
                ('status', models.CharField(choices=[('pending', 'Pending'), ('processing', 'Processing'), ('completed', 'Completed'), ('failed', 'Failed')], default='pending', max_length=10)),
                ('error', models.TextField(blank=True, default='')),
                ('content', models.TextField(blank=True, default='')),
                ('method', models.CharField(choices=[('model', 'by a language model'), ('extractive', 'extract of its own sentences')], max_length=10)),
                ('model', models.CharField(blank=True, default='', max_length=200)),
                ('prompt_version', models.PositiveSmallIntegerField(blank=True, null=True)),
                ('token_count', models.PositiveIntegerField(default=0)),
                ('partials', models.JSONField(blank=True, default=dict)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('run', models.UUIDField(blank=True, null=True)),
                ('due_at', models.DateTimeField(help_text='When to begin, try again, or take over from a worker that was lost.')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('completed_at', models.DateTimeField(blank=True, null=True)),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('conversation', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='summaries', to='conversations.conversation')),
            ],
            options={
                'verbose_name_plural': 'conversation summaries',
                'indexes': [models.Index(fields=['conversation', '-id'], name='summary_conversation'), models.Index(fields=['archive'], name='summary_owner'), models.Index(condition=models.Q(('status__in', ['pending', 'processing'])), fields=['due_at'], name='summary_unfinished')],
                'constraints': [models.CheckConstraint(condition=models.Q(('from_position__lte', models.F('to_position'))), name='summary_range'), models.CheckConstraint(condition=models.Q(('status__in', ['pending', 'processing', 'completed', 'failed'])), name='summary_status')],
            },
        ),
    ]
