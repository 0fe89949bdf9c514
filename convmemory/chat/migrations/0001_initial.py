"""Agents, replies and histories that programs sent."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("chat", "0001_agents_and_replies"),
        ("chat", "0002_interrupted_for_any_reason"),
        ("chat", "0003_agents_switched_off"),
        ("chat", "0004_running_reply_of_an_owner"),
        ("chat", "0005_agent_documents"),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('conversations', '0001_initial'),
        ('documents', '0001_documents'),
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
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='agents', to=settings.AUTH_USER_MODEL)),
                ('switched_off_at', models.DateTimeField(blank=True, help_text='By an administrator; null: in use.', null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('owner', 'name'), name='agent_name_unique')],
                'permissions': [('use_private_address', 'Can have agents ask servers of this machine and of private networks')],
            },
        ),
        migrations.CreateModel(
            name='AgentDocument',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('agent', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='chat.agent')),
                ('document', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='documents.document')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['owner', 'agent'], name='agent_document_owner')],
                'constraints': [models.UniqueConstraint(fields=('agent', 'document', 'owner'), name='agent_document_unique')],
            },
        ),
        migrations.CreateModel(
            name='CapturedHistory',
            fields=[
                ('conversation', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='captured_history', serialize=False, to='conversations.conversation')),
                ('history_hash', models.BinaryField(max_length=32)),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name_plural': 'captured histories',
                'indexes': [models.Index(fields=['owner', 'history_hash'], name='captured_history')],
            },
        ),
        migrations.CreateModel(
            name='Reply',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('model', models.CharField(blank=True, default='', max_length=200)),
                ('status', models.CharField(choices=[('running', 'Running'), ('done', 'Done'), ('stopped', 'stopped by its owner'), ('interrupted', 'interrupted before its end'), ('failed', 'Failed')], default='running', max_length=12)),
                ('stop_requested', models.BooleanField(default=False)),
                ('partial', models.JSONField(default=list)),
                ('context', models.JSONField(default=dict, help_text='What the context pipeline did; empty where it did nothing.')),
                ('error', models.TextField(blank=True, default='')),
                ('started_at', models.DateTimeField(auto_now_add=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('agent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='chat.agent')),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='replies', to='conversations.conversation')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('question', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='conversations.message')),
            ],
            options={
                'verbose_name_plural': 'replies',
                'constraints': [models.CheckConstraint(condition=models.Q(('status__in', ['running', 'done', 'stopped', 'interrupted', 'failed'])), name='reply_status'), models.UniqueConstraint(condition=models.Q(('status', 'running')), fields=('owner', 'conversation'), name='reply_running_once')],
            },
        ),
    ]
