"""Conversations with their messages, imports, events, tags and statistics."""

import convmemory.conversations.importing.models
import convmemory.core.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.constraints
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("conversations", "0001_conversations"),
        ("conversations", "0002_import_jobs"),
        ("conversations", "0003_owner_of_messages"),
        ("conversations", "0004_superseded_messages"),
        ("conversations", "0005_imported_conversations"),
        ("conversations", "0006_words_of_events"),
        ("conversations", "0007_hidden_keys"),
        ("conversations", "0008_synced_files"),
        ("conversations", "0009_kept_uploads"),
        ("conversations", "0010_stars_tags_and_figures"),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Conversation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('title', models.CharField(blank=True, default='', max_length=300)),
                ('agent', models.CharField(blank=True, default='', max_length=100)),
                ('project', models.CharField(blank=True, default='', max_length=300)),
                ('source', models.CharField(default='api', max_length=50)),
                ('source_id', models.CharField(blank=True, default='', max_length=300)),
                ('parent_source_id', models.CharField(blank=True, default='', max_length=300)),
                ('status', models.CharField(choices=[('idle', 'Idle'), ('processing', 'Processing'), ('failed', 'Failed')], default='idle', max_length=10)),
                ('processing_until', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
                ('archived_at', models.DateTimeField(blank=True, null=True)),
                ('message_count', models.PositiveIntegerField(default=0)),
                ('turn_count', models.PositiveIntegerField(default=0)),
                ('turns_version', models.PositiveBigIntegerField(default=0, help_text='Grows whenever any turn changes.')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='conversations', to=settings.AUTH_USER_MODEL)),
                ('parent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='children', to='conversations.conversation')),
                ('pinned_at', models.DateTimeField(blank=True, help_text='Stands on top of the library.', null=True)),
                ('starred_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['owner', '-updated_at', '-id'], name='conversation_recent'), models.Index(condition=models.Q(('starred_at__isnull', False)), fields=['owner', '-starred_at'], name='conversation_star'), models.Index(condition=models.Q(('pinned_at__isnull', False)), fields=['owner', '-pinned_at'], name='conversation_pin')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('source_id', ''), _negated=True), fields=('owner', 'source', 'source_id'), name='conversation_source_unique'), models.CheckConstraint(condition=models.Q(('status__in', ['idle', 'processing', 'failed'])), name='conversation_status'), models.CheckConstraint(condition=models.Q(('parent', models.F('id')), _negated=True), name='conversation_not_own_parent')],
            },
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('line_number', models.PositiveIntegerField()),
                ('type', models.CharField(max_length=100)),
                ('level', models.CharField(blank=True, default='', max_length=20)),
                ('tool', models.CharField(blank=True, default='', max_length=100)),
                ('turn_number', models.PositiveIntegerField(blank=True, null=True)),
                ('created_at', models.DateTimeField(blank=True, null=True)),
                ('payload', models.JSONField(default=dict)),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='conversations.conversation')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('words', django.contrib.postgres.search.SearchVectorField(help_text='Of all its fields: see messages/drafts.py.', null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['owner', 'type'], name='event_owner_type'), models.Index(condition=models.Q(('tool', ''), _negated=True), fields=['owner', 'tool'], name='event_owner_tool'), django.contrib.postgres.indexes.GinIndex(convmemory.core.postgres.fields.OwnedWords('words'), fastupdate=False, name='event_owned_words')],
                'constraints': [models.UniqueConstraint(fields=('owner', 'conversation', 'line_number'), name='event_line_unique')],
            },
        ),
        migrations.CreateModel(
            name='Figures',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('turns_version', models.PositiveBigIntegerField()),
                ('message_count', models.PositiveIntegerField()),
                ('days', models.JSONField(default=dict)),
                ('tools', models.JSONField(default=dict)),
                ('spoken_by', models.JSONField(db_column='models', default=dict)),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='figures', to='conversations.conversation')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name_plural': 'figures',
                'constraints': [models.UniqueConstraint(fields=('owner', 'conversation'), name='figures_once_a_conversation')],
            },
        ),
        migrations.CreateModel(
            name='Message',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveIntegerField()),
                ('role', models.CharField(choices=[('user', 'User'), ('assistant', 'Assistant'), ('tool', 'Tool'), ('system', 'System')], max_length=10)),
                ('is_real_user', models.BooleanField(default=False, help_text='A person wrote this: it can open a turn.')),
                ('name', models.CharField(blank=True, default='', max_length=200)),
                ('model', models.CharField(blank=True, default='', max_length=200)),
                ('parts', models.JSONField(default=list)),
                ('turn_number', models.PositiveIntegerField(blank=True, null=True)),
                ('source_key', models.CharField(blank=True, default='', max_length=200)),
                ('content_hash', models.BinaryField(max_length=32)),
                ('created_at', models.DateTimeField(blank=True, null=True)),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.conversation')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('superseded', models.BooleanField(db_default=False, default=False, help_text='Its thread went on without it: it belongs to no turn.')),
            ],
            options={
                'indexes': [models.Index(fields=['owner', 'conversation', 'turn_number'], name='message_turn')],
                'constraints': [models.CheckConstraint(condition=models.Q(('role__in', ['user', 'assistant', 'tool', 'system'])), name='message_role'), models.CheckConstraint(condition=models.Q(('is_real_user', False), ('role', 'user'), _connector='OR'), name='message_real_user_role'), models.UniqueConstraint(deferrable=django.db.models.constraints.Deferrable['DEFERRED'], fields=('owner', 'conversation', 'position'), name='message_position_unique'), models.UniqueConstraint(condition=models.Q(('source_key', ''), _negated=True), fields=('owner', 'conversation', 'source_key'), name='message_source_key_unique')],
            },
        ),
        migrations.CreateModel(
            name='HiddenKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField(help_text='Of the mark in the message, from 1.')),
                ('kind', models.CharField(max_length=40)),
                ('value_encrypted', models.TextField()),
                ('message', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='hidden_keys', to='conversations.message')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('owner', 'message', 'number'), name='hidden_key_number_unique')],
            },
        ),
        migrations.CreateModel(
            name='KeptUpload',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(help_text='SHA-256 of the upload.', max_length=64)),
                ('name', models.CharField(max_length=255)),
                ('format', models.CharField(max_length=30)),
                ('file', models.FileField(blank=True, default='', max_length=200, storage=convmemory.conversations.importing.models.kept_storage, upload_to='')),
                ('stored_size', models.PositiveBigIntegerField(default=0, help_text='Bytes on the disk.')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('owner', 'digest'), name='kept_upload_unique')],
            },
        ),
        migrations.CreateModel(
            name='Import',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=255)),
                ('format', models.CharField(max_length=30)),
                ('size', models.PositiveBigIntegerField(help_text='Bytes of the uploaded file; 0 where a command imported.')),
                ('file', models.FileField(blank=True, default='', storage=convmemory.conversations.importing.models.upload_storage, upload_to='')),
                ('state', models.CharField(choices=[('queued', 'waiting'), ('running', 'running'), ('done', 'done'), ('failed', 'failed'), ('undoing', 'being undone'), ('undone', 'undone')], default='queued', max_length=10)),
                ('failure', models.CharField(blank=True, choices=[('unreadable', 'Unreadable'), ('too_large', 'Too Large'), ('time', 'Time'), ('memory', 'Memory'), ('interrupted', 'Interrupted'), ('internal', 'Internal')], default='', max_length=20)),
                ('error', models.TextField(blank=True, default='')),
                ('report', models.JSONField(blank=True, null=True)),
                ('files_read', models.PositiveIntegerField(default=0)),
                ('messages_read', models.PositiveIntegerField(default=0)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('run', models.UUIDField(blank=True, null=True)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='imports', to=settings.AUTH_USER_MODEL)),
                ('digest', models.CharField(blank=True, default='', help_text='SHA-256 of the uploaded file.', max_length=64)),
                ('kept', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='conversations.keptupload')),
            ],
            options={
                'indexes': [models.Index(fields=['owner', '-id'], name='import_owner'), models.Index(condition=models.Q(('state__in', ['queued', 'running'])), fields=['id'], name='import_unfinished'), models.Index(condition=models.Q(('digest', ''), _negated=True), fields=['owner', 'digest'], name='import_digest')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state', 'running')), fields=('owner',), name='import_one_running'), models.CheckConstraint(condition=models.Q(('state__in', ['queued', 'running', 'done', 'failed', 'undoing', 'undone'])), name='import_state')],
            },
        ),
        migrations.CreateModel(
            name='ImportedConversation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('file', models.CharField(max_length=500)),
                ('created', models.BooleanField()),
                ('first_message', models.BigIntegerField(blank=True, null=True)),
                ('last_message', models.BigIntegerField(blank=True, null=True)),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.conversation')),
                ('import_job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='found', to='conversations.import')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['owner', 'import_job', 'id'], name='imported_conversation'), models.Index(fields=['import_job'], name='imported_conversation_job')],
            },
        ),
        migrations.CreateModel(
            name='KeptConversation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.conversation')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('upload', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='holds', to='conversations.keptupload')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('owner', 'conversation', 'upload'), name='kept_conversation_unique')],
            },
        ),
        migrations.CreateModel(
            name='MessageSource',
            fields=[
                ('message', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='source', serialize=False, to='conversations.message')),
                ('data', models.BinaryField()),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='SyncedFile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('path', models.TextField()),
                ('agent', models.CharField(max_length=50)),
                ('device', models.DecimalField(decimal_places=0, max_digits=20)),
                ('inode', models.DecimalField(decimal_places=0, max_digits=20)),
                ('size', models.BigIntegerField()),
                ('modified_ns', models.BigIntegerField()),
                ('head', models.BinaryField(max_length=32)),
                ('head_bytes', models.PositiveIntegerField()),
                ('imported_at', models.DateTimeField(auto_now=True)),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('owner', 'path'), name='synced_file_unique')],
            },
        ),
        migrations.CreateModel(
            name='Tag',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=50)),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tags', to='conversations.conversation')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('owner', 'name', 'conversation'), name='tag_once_a_conversation')],
            },
        ),
    ]
