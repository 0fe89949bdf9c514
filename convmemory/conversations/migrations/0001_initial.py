"""Conversations, messages, imports and their records."""

import convmemory.conversations.importing.models
import convmemory.core.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.constraints
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [  # of the databases of commit 5e9aed6e
        ("conversations", "0001_conversations"),
        ("conversations", "0002_import_jobs"),
        ("conversations", "0002_stored_bytes"),
        ("conversations", "0003_owner_of_messages"),
        ("conversations", "0003_title_version"),
        ("conversations", "0004_import_mapping"),
        ("conversations", "0004_superseded_messages"),
        ("conversations", "0005_continued_in"),
        ("conversations", "0005_imported_conversations"),
        ("conversations", "0006_project_renames"),
        ("conversations", "0006_words_of_events"),
        ("conversations", "0007_hidden_keys"),
        ("conversations", "0007_turn_marks"),
        ("conversations", "0008_synced_files"),
        ("conversations", "0008_trash"),
        ("conversations", "0009_kept_uploads"),
        ("conversations", "0010_stars_tags_and_figures"),
        ("conversations", "0011_counted_turns"),
        ("conversations", "0011_stored_bytes"),
        ("conversations", "0012_import_started_by"),
    ]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Message',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveIntegerField()),
                ('role', models.CharField(choices=[('user', 'User'), ('assistant', 'Assistant'), ('tool', 'Tool'), ('system', 'System')], max_length=10)),
                ('is_real_user', models.BooleanField(default=False, help_text='A person wrote this: it can open a turn.')),
                ('superseded', models.BooleanField(db_default=False, default=False, help_text='Its thread went on without it: it belongs to no turn.')),
                ('name', models.CharField(blank=True, default='', max_length=200)),
                ('model', models.CharField(blank=True, default='', max_length=200)),
                ('parts', models.JSONField(default=list)),
                ('turn_number', models.PositiveIntegerField(blank=True, null=True)),
                ('source_key', models.CharField(blank=True, default='', max_length=200)),
                ('content_hash', models.BinaryField(max_length=32)),
                ('created_at', models.DateTimeField(blank=True, null=True)),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
            ],
        ),
        migrations.CreateModel(
            name='Conversation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('trashed_at', models.DateTimeField(blank=True, help_text='Since then it has been in the trash.', null=True)),
                ('title', models.CharField(blank=True, default='', max_length=300)),
                ('title_version', models.SmallIntegerField(default=1, help_text='0: chosen by the owner. Null: of an older version.', null=True)),
                ('agent', models.CharField(blank=True, default='', max_length=100)),
                ('project', models.CharField(blank=True, default='', max_length=300)),
                ('source', models.CharField(default='api', max_length=50)),
                ('source_id', models.CharField(blank=True, default='', max_length=300)),
                ('parent_source_id', models.CharField(blank=True, default='', max_length=300)),
                ('continued_in', models.CharField(blank=True, default='', help_text='The source id of the session in which it goes on.', max_length=300)),
                ('status', models.CharField(choices=[('idle', 'Idle'), ('processing', 'Processing'), ('failed', 'Failed')], default='idle', max_length=10)),
                ('processing_until', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
                ('archived_at', models.DateTimeField(blank=True, null=True)),
                ('starred_at', models.DateTimeField(blank=True, null=True)),
                ('pinned_at', models.DateTimeField(blank=True, help_text='Stands on top of the library.', null=True)),
                ('message_count', models.PositiveIntegerField(default=0)),
                ('turn_count', models.PositiveIntegerField(default=0)),
                ('turns_version', models.PositiveBigIntegerField(default=0, help_text='Grows whenever any turn changes.')),
                ('stored_bytes', models.BigIntegerField(default=0, help_text='Null: not counted yet.', null=True)),
                ('archive', models.ForeignKey(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='conversations', to='accounts.archive')),
                ('parent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='children', to='conversations.conversation')),
            ],
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
                ('words', django.contrib.postgres.search.SearchVectorField(help_text='Of all its fields: see messages/drafts.py.', null=True)),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='conversations.conversation')),
            ],
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
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='figures', to='conversations.conversation')),
            ],
            options={
                'verbose_name_plural': 'figures',
            },
        ),
        migrations.CreateModel(
            name='Import',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=255)),
                ('format', models.CharField(max_length=30)),
                ('size', models.PositiveBigIntegerField(help_text='Bytes of the uploaded file; 0 where a command imported.')),
                ('digest', models.CharField(blank=True, default='', help_text='SHA-256 of the uploaded file.', max_length=64)),
                ('file', models.FileField(blank=True, default='', storage=convmemory.conversations.importing.models.upload_storage, upload_to='')),
                ('mapping', models.JSONField(blank=True, help_text='How files of unknown formats are read.', null=True)),
                ('is_preview', models.BooleanField(default=False, help_text='Nothing is stored.')),
                ('state', models.CharField(choices=[('queued', 'waiting'), ('running', 'running'), ('done', 'done'), ('failed', 'failed'), ('undoing', 'being undone'), ('undone', 'undone')], default='queued', max_length=10)),
                ('failure', models.CharField(blank=True, choices=[('unreadable', 'Unreadable'), ('too_large', 'Too Large'), ('time', 'Time'), ('memory', 'Memory'), ('interrupted', 'Interrupted'), ('internal', 'Internal')], default='', max_length=20)),
                ('error', models.TextField(blank=True, default='')),
                ('report', models.JSONField(blank=True, null=True)),
                ('files_read', models.PositiveIntegerField(default=0)),
                ('messages_read', models.PositiveIntegerField(default=0)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('started_by', models.IntegerField(help_text='The member who sent it to a space; null: its owner.', null=True)),
                ('run', models.UUIDField(blank=True, null=True)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='imports', to='accounts.archive')),
            ],
        ),
        migrations.CreateModel(
            name='ImportedConversation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('file', models.CharField(max_length=500)),
                ('created', models.BooleanField()),
                ('first_message', models.BigIntegerField(blank=True, null=True)),
                ('last_message', models.BigIntegerField(blank=True, null=True)),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.conversation')),
                ('import_job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='found', to='conversations.import')),
            ],
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
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
            ],
        ),
        migrations.CreateModel(
            name='KeptConversation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.conversation')),
                ('upload', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='holds', to='conversations.keptupload')),
            ],
        ),
        migrations.AddField(
            model_name='import',
            name='kept',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='conversations.keptupload'),
        ),
        migrations.CreateModel(
            name='MessageSource',
            fields=[
                ('message', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='source', serialize=False, to='conversations.message')),
                ('data', models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name='TurnMark',
            fields=[
                ('message', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='conversations.message')),
                ('kind', models.CharField(choices=[('wrong', 'Wrong'), ('outdated', 'Outdated')], max_length=10)),
                ('note', models.CharField(blank=True, default='', max_length=300)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.AddField(
            model_name='message',
            name='conversation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.conversation'),
        ),
        migrations.CreateModel(
            name='HiddenKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField(help_text='Of the mark in the message, from 1.')),
                ('kind', models.CharField(max_length=40)),
                ('value_encrypted', models.TextField()),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('message', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='hidden_keys', to='conversations.message')),
            ],
        ),
        migrations.CreateModel(
            name='ProjectRename',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('old', models.CharField(max_length=300)),
                ('new', models.CharField(max_length=300)),
                ('merged', models.BooleanField(help_text='There was a project of the new name.')),
                ('conversation_ids', models.JSONField(default=list)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('archive', models.ForeignKey(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
            ],
        ),
        migrations.CreateModel(
            name='StoredUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('stored_bytes', models.BigIntegerField(default=0)),
                ('turns', models.BigIntegerField(db_default=0, default=0)),
                ('documents', models.BigIntegerField(db_default=0, default=0)),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
            ],
            options={
                'verbose_name': 'use of storage',
                'verbose_name_plural': 'uses of storage',
            },
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
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
            ],
        ),
        migrations.CreateModel(
            name='Tag',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=50)),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tags', to='conversations.conversation')),
            ],
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(fields=['archive', '-updated_at', '-id'], name='conversation_recent'),
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(condition=models.Q(('starred_at__isnull', False)), fields=['archive', '-starred_at'], name='conversation_star'),
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(condition=models.Q(('pinned_at__isnull', False)), fields=['archive', '-pinned_at'], name='conversation_pin'),
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(condition=models.Q(('trashed_at__isnull', False)), fields=['archive', '-trashed_at'], name='conversation_trash'),
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(condition=models.Q(('stored_bytes__isnull', True)), fields=['id'], name='conversation_uncounted'),
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(condition=models.Q(('title_version__isnull', True)), fields=['id'], name='conversation_old_title'),
        ),
        migrations.AddConstraint(
            model_name='conversation',
            constraint=models.UniqueConstraint(condition=models.Q(('source_id', ''), _negated=True), fields=('archive', 'source', 'source_id'), name='conversation_source_unique'),
        ),
        migrations.AddConstraint(
            model_name='conversation',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['idle', 'processing', 'failed'])), name='conversation_status'),
        ),
        migrations.AddConstraint(
            model_name='conversation',
            constraint=models.CheckConstraint(condition=models.Q(('parent', models.F('id')), _negated=True), name='conversation_not_own_parent'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(fields=['archive', 'type'], name='event_owner_type'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(condition=models.Q(('tool', ''), _negated=True), fields=['archive', 'tool'], name='event_owner_tool'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=django.contrib.postgres.indexes.GinIndex(convmemory.core.postgres.fields.OwnedWords('words'), fastupdate=False, name='event_owned_words'),
        ),
        migrations.AddConstraint(
            model_name='event',
            constraint=models.UniqueConstraint(fields=('archive', 'conversation', 'line_number'), name='event_line_unique'),
        ),
        migrations.AddConstraint(
            model_name='figures',
            constraint=models.UniqueConstraint(fields=('archive', 'conversation'), name='figures_once_a_conversation'),
        ),
        migrations.AddIndex(
            model_name='importedconversation',
            index=models.Index(fields=['archive', 'import_job', 'id'], name='imported_conversation'),
        ),
        migrations.AddIndex(
            model_name='importedconversation',
            index=models.Index(fields=['import_job'], name='imported_conversation_job'),
        ),
        migrations.AddConstraint(
            model_name='keptupload',
            constraint=models.UniqueConstraint(fields=('archive', 'digest'), name='kept_upload_unique'),
        ),
        migrations.AddConstraint(
            model_name='keptconversation',
            constraint=models.UniqueConstraint(fields=('archive', 'conversation', 'upload'), name='kept_conversation_unique'),
        ),
        migrations.AddIndex(
            model_name='import',
            index=models.Index(fields=['archive', '-id'], name='import_owner'),
        ),
        migrations.AddIndex(
            model_name='import',
            index=models.Index(condition=models.Q(('digest', ''), _negated=True), fields=['archive', 'digest'], name='import_digest'),
        ),
        migrations.AddIndex(
            model_name='import',
            index=models.Index(condition=models.Q(('state__in', ['queued', 'running'])), fields=['id'], name='import_unfinished'),
        ),
        migrations.AddConstraint(
            model_name='import',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['queued', 'running', 'done', 'failed', 'undoing', 'undone'])), name='import_state'),
        ),
        migrations.AddConstraint(
            model_name='import',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'running')), fields=('archive',), name='import_one_running'),
        ),
        migrations.AddField(
            model_name='messagesource',
            name='archive',
            field=models.ForeignKey(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive'),
        ),
        migrations.AddField(
            model_name='turnmark',
            name='archive',
            field=models.ForeignKey(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(fields=['archive', 'conversation', 'turn_number'], name='message_turn'),
        ),
        migrations.AddConstraint(
            model_name='message',
            constraint=models.UniqueConstraint(deferrable=django.db.models.constraints.Deferrable['DEFERRED'], fields=('archive', 'conversation', 'position'), name='message_position_unique'),
        ),
        migrations.AddConstraint(
            model_name='message',
            constraint=models.UniqueConstraint(condition=models.Q(('source_key', ''), _negated=True), fields=('archive', 'conversation', 'source_key'), name='message_source_key_unique'),
        ),
        migrations.AddConstraint(
            model_name='message',
            constraint=models.CheckConstraint(condition=models.Q(('role__in', ['user', 'assistant', 'tool', 'system'])), name='message_role'),
        ),
        migrations.AddConstraint(
            model_name='message',
            constraint=models.CheckConstraint(condition=models.Q(('is_real_user', False), ('role', 'user'), _connector='OR'), name='message_real_user_role'),
        ),
        migrations.AddConstraint(
            model_name='hiddenkey',
            constraint=models.UniqueConstraint(fields=('archive', 'message', 'number'), name='hidden_key_number_unique'),
        ),
        migrations.AddConstraint(
            model_name='storeduse',
            constraint=models.UniqueConstraint(fields=('archive',), name='stored_use_once_an_owner'),
        ),
        migrations.AddConstraint(
            model_name='syncedfile',
            constraint=models.UniqueConstraint(fields=('archive', 'path'), name='synced_file_unique'),
        ),
        migrations.AddConstraint(
            model_name='tag',
            constraint=models.UniqueConstraint(fields=('archive', 'name', 'conversation'), name='tag_once_a_conversation'),
        ),
        migrations.AddConstraint(
            model_name='turnmark',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['wrong', 'outdated'])), name='turn_mark_kind'),
        ),
    ]
