"""What came in with an import, so that its report links to it and the whole of it can be undone."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

STATES = ['queued', 'running', 'done', 'failed', 'undoing', 'undone']


class Migration(migrations.Migration):

    dependencies = [
        ('conversations', '0004_superseded_messages'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterField(
            model_name='import',
            name='state',
            field=models.CharField(choices=[('queued', 'waiting'), ('running', 'running'), ('done', 'done'), ('failed', 'failed'), ('undoing', 'being undone'), ('undone', 'undone')], default='queued', max_length=10),
        ),
        migrations.RemoveConstraint('import', 'import_state'),
        migrations.AddConstraint(
            model_name='import',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', STATES)), name='import_state'),
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
                'indexes': [
                    models.Index(fields=['owner', 'import_job', 'id'], name='imported_conversation'),
                    models.Index(fields=['import_job'], name='imported_conversation_job'),
                ],
            },
        ),
    ]
