"""Agents, replies and recorded exchanges."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [  # of the databases of commit 5e9aed6e
        ("chat", "0001_agents_and_replies"),
        ("chat", "0002_interrupted_for_any_reason"),
        ("chat", "0003_agents_switched_off"),
        ("chat", "0004_running_reply_of_an_owner"),
        ("chat", "0005_agent_documents"),
        ("chat", "0006_recent_hashes"),
        ("chat", "0007_reply_follows"),
    ]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('conversations', '0001_initial'),
        ('documents', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Agent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('system_prompt', models.TextField(blank=True, default='')),
                ('base_url', models.CharField(blank=True, default='', max_length=500)),
                ('api_key_encrypted', models.TextField(blank=True, default='', editable=False)),
                ('model', models.CharField(blank=True, default='', max_length=200)),
                ('context_window', models.PositiveIntegerField(blank=True, help_text='Tokens.', null=True)),
                ('reply_tokens', models.PositiveIntegerField(blank=True, help_text='The longest reply, in tokens.', null=True)),
                ('temperature', models.FloatField(blank=True, null=True)),
                ('tools', models.JSONField(blank=True, default=list, help_text='Names of the tools that the model may call.')),
                ('context_strategies', models.JSONField(blank=True, default=list, help_text='Names, in the order they run.')),
                ('switched_off_at', models.DateTimeField(blank=True, help_text='By an administrator; null: in use.', null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('archive', models.ForeignKey(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='agents', to='accounts.archive')),
            ],
            options={
                'permissions': [('use_private_address', 'Can have agents ask servers of this machine and of private networks')],
            },
        ),
        migrations.CreateModel(
            name='AgentDocument',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('agent', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='chat.agent')),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('document', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='documents.document')),
            ],
        ),
        migrations.CreateModel(
            name='CapturedHistory',
            fields=[
                ('conversation', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='captured_history', serialize=False, to='conversations.conversation')),
                ('history_hash', models.BinaryField(max_length=32)),
                ('recent_hashes', models.BinaryField(default=b'')),
                ('response_id', models.CharField(blank=True, default='', max_length=200)),
                ('recorded_at', models.DateTimeField(auto_now=True)),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
            ],
            options={
                'verbose_name_plural': 'captured histories',
            },
        ),
        migrations.CreateModel(
            name='Reply',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('follows', models.BigIntegerField(blank=True, help_text='The id of the message before the question; 0: it begins the conversation. Null: not known yet.', null=True)),
                ('model', models.CharField(blank=True, default='', max_length=200)),
                ('status', models.CharField(choices=[('running', 'Running'), ('done', 'Done'), ('stopped', 'stopped by its owner'), ('interrupted', 'interrupted before its end'), ('failed', 'Failed')], default='running', max_length=12)),
                ('stop_requested', models.BooleanField(default=False)),
                ('partial', models.JSONField(default=list)),
                ('context', models.JSONField(default=dict, help_text='What the context pipeline did; empty where it did nothing.')),
                ('error', models.TextField(blank=True, default='')),
                ('started_at', models.DateTimeField(auto_now_add=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('agent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='chat.agent')),
                ('archive', models.ForeignKey(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='replies', to='conversations.conversation')),
                ('question', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='conversations.message')),
            ],
            options={
                'verbose_name_plural': 'replies',
            },
        ),
        migrations.AddConstraint(
            model_name='agent',
            constraint=models.UniqueConstraint(fields=('archive', 'name'), name='agent_name_unique'),
        ),
        migrations.AddIndex(
            model_name='agentdocument',
            index=models.Index(fields=['archive', 'agent'], name='agent_document_owner'),
        ),
        migrations.AddConstraint(
            model_name='agentdocument',
            constraint=models.UniqueConstraint(fields=('agent', 'document', 'archive'), name='agent_document_unique'),
        ),
        migrations.AddIndex(
            model_name='capturedhistory',
            index=models.Index(fields=['archive', 'history_hash'], name='captured_history'),
        ),
        migrations.AddIndex(
            model_name='capturedhistory',
            index=models.Index(fields=['archive', 'recorded_at'], name='captured_history_recent'),
        ),
        migrations.AddIndex(
            model_name='capturedhistory',
            index=models.Index(condition=models.Q(('response_id', ''), _negated=True), fields=['archive', 'response_id'], name='captured_response'),
        ),
        migrations.AddConstraint(
            model_name='reply',
            constraint=models.UniqueConstraint(condition=models.Q(('status', 'running')), fields=('archive', 'conversation'), name='reply_running_once'),
        ),
        migrations.AddConstraint(
            model_name='reply',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['running', 'done', 'stopped', 'interrupted', 'failed'])), name='reply_status'),
        ),
    ]
