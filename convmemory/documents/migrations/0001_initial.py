"""Documents and their sections."""

import convmemory.documents.storage
import django.db.models.constraints
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [  # of the databases of commit 5e9aed6e
        ("documents", "0001_documents"),
        ("documents", "0002_stored_bytes"),
        ("documents", "0003_section_headings"),
        ("documents", "0004_trash"),
        ("documents", "0005_counted_documents"),
    ]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('conversations', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='ConversationDocument',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('conversation', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.conversation')),
            ],
        ),
        migrations.CreateModel(
            name='Document',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('trashed_at', models.DateTimeField(blank=True, help_text='Since then it has been in the trash.', null=True)),
                ('name', models.CharField(help_text='The name that the file came with.', max_length=255)),
                ('title', models.CharField(blank=True, default='', max_length=300)),
                ('format', models.CharField(blank=True, default='', max_length=20)),
                ('size', models.PositiveBigIntegerField(help_text='Bytes of the file.')),
                ('digest', models.CharField(help_text='SHA-256 of the file.', max_length=64)),
                ('file', models.FileField(max_length=200, storage=convmemory.documents.storage.document_storage, upload_to='')),
                ('next_file', models.FileField(blank=True, default='', max_length=200, storage=convmemory.documents.storage.document_storage, upload_to='')),
                ('next_name', models.CharField(blank=True, default='', max_length=255)),
                ('status', models.CharField(choices=[('uploaded', 'waiting'), ('processing', 'being read'), ('ready', 'ready'), ('failed', 'failed')], default='uploaded', max_length=10)),
                ('failure', models.CharField(blank=True, choices=[('encrypted', 'Encrypted'), ('broken', 'Broken'), ('no_text', 'No Text'), ('empty', 'Empty'), ('unknown', 'Unknown'), ('too_large', 'Too Large'), ('time', 'Time'), ('memory', 'Memory'), ('interrupted', 'Interrupted'), ('internal', 'Internal')], default='', max_length=20)),
                ('error', models.TextField(blank=True, default='', help_text='Why the last version cannot be read, and what to do.')),
                ('notes', models.JSONField(blank=True, default=list)),
                ('page_count', models.PositiveIntegerField(blank=True, null=True)),
                ('char_count', models.PositiveIntegerField(default=0)),
                ('section_count', models.PositiveIntegerField(default=0)),
                ('version', models.PositiveBigIntegerField(default=0)),
                ('stored_bytes', models.BigIntegerField(default=0, help_text='Of its file and its sections; null: not counted yet.', null=True)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='documents', to='accounts.archive')),
                ('conversations', models.ManyToManyField(related_name='+', through='documents.ConversationDocument', to='conversations.conversation')),
            ],
        ),
        migrations.AddField(
            model_name='conversationdocument',
            name='document',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='documents.document'),
        ),
        migrations.CreateModel(
            name='Section',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('path', models.JSONField(default=list)),
                ('page', models.PositiveIntegerField(blank=True, null=True)),
                ('start', models.PositiveIntegerField()),
                ('text', models.TextField()),
                ('headings', models.JSONField(blank=True, db_default=[], default=list, help_text='Of sections joined to it: where each begins, and its path.')),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('document', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='documents.document')),
            ],
        ),
        migrations.AddIndex(
            model_name='document',
            index=models.Index(fields=['archive', '-id'], name='document_owner'),
        ),
        migrations.AddIndex(
            model_name='document',
            index=models.Index(condition=models.Q(('trashed_at__isnull', False)), fields=['archive', '-trashed_at'], name='document_trash'),
        ),
        migrations.AddIndex(
            model_name='document',
            index=models.Index(condition=models.Q(('status__in', ['uploaded', 'processing'])), fields=['id'], name='document_unfinished'),
        ),
        migrations.AddConstraint(
            model_name='document',
            constraint=models.UniqueConstraint(fields=('archive', 'digest'), name='document_digest_unique'),
        ),
        migrations.AddConstraint(
            model_name='document',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['uploaded', 'processing', 'ready', 'failed'])), name='document_status'),
        ),
        migrations.AddIndex(
            model_name='conversationdocument',
            index=models.Index(fields=['archive', 'conversation'], name='conversation_document_owner'),
        ),
        migrations.AddConstraint(
            model_name='conversationdocument',
            constraint=models.UniqueConstraint(fields=('conversation', 'document', 'archive'), name='conversation_document_unique'),
        ),
        migrations.AddConstraint(
            model_name='section',
            constraint=models.UniqueConstraint(deferrable=django.db.models.constraints.Deferrable['DEFERRED'], fields=('document', 'number', 'archive'), name='section_number_unique'),
        ),
    ]
