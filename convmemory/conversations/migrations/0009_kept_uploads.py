"""Uploads that are kept to be read again, and the conversations that they hold."""

import convmemory.conversations.import_storage
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('conversations', '0008_synced_files'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='import',
            name='digest',
            field=models.CharField(blank=True, default='', help_text='SHA-256 of the uploaded file.', max_length=64),
        ),
        migrations.AlterField(
            model_name='import',
            name='size',
            field=models.PositiveBigIntegerField(help_text='Bytes of the uploaded file; 0 where a command imported.'),
        ),
        migrations.CreateModel(
            name='KeptUpload',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('digest', models.CharField(help_text='SHA-256 of the upload.', max_length=64)),
                ('name', models.CharField(max_length=255)),
                ('format', models.CharField(max_length=30)),
                ('file', models.FileField(blank=True, default='', max_length=200, storage=convmemory.conversations.import_storage.kept_storage, upload_to='')),
                ('stored_size', models.PositiveBigIntegerField(default=0, help_text='Bytes on the disk.')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='KeptConversation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='conversations.conversation')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('upload', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='holds', to='conversations.keptupload')),
            ],
        ),
        migrations.AddField(
            model_name='import',
            name='kept',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='conversations.keptupload'),
        ),
        migrations.AddIndex(
            model_name='import',
            index=models.Index(condition=models.Q(('digest', ''), _negated=True), fields=['owner', 'digest'], name='import_digest'),
        ),
        migrations.AddConstraint(
            model_name='keptupload',
            constraint=models.UniqueConstraint(fields=('owner', 'digest'), name='kept_upload_unique'),
        ),
        migrations.AddConstraint(
            model_name='keptconversation',
            constraint=models.UniqueConstraint(fields=('owner', 'conversation', 'upload'), name='kept_conversation_unique'),
        ),
    ]
