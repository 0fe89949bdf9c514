"""Text search configurations, sources, their items, passages and vectors, and searches that were made."""

import django.contrib.postgres.search
import django.db.models.deletion
import pgvector.django.halfvec
import search.fields
from django.db import migrations, models

# Stems, but no stop words: phrases keep them, and a query of nothing else still finds something.
CREATE_TEXT_SEARCH = """
CREATE TEXT SEARCH DICTIONARY convmemory_stem (TEMPLATE = snowball, LANGUAGE = english);
CREATE TEXT SEARCH CONFIGURATION convmemory (COPY = simple);
ALTER TEXT SEARCH CONFIGURATION convmemory
    ALTER MAPPING FOR asciiword, word, hword, hword_part, hword_asciipart, asciihword WITH convmemory_stem;
"""
DROP_TEXT_SEARCH = """
DROP TEXT SEARCH CONFIGURATION convmemory;
DROP TEXT SEARCH DICTIONARY convmemory_stem;
"""
SCRIPTS = ["arabic", "armenian", "greek", "hindi", "russian", "tamil"]
# Words in Latin letters among those of a script are stemmed as English.
LATIN = [
    "danish", "dutch", "finnish", "french", "german", "hungarian", "indonesian", "italian", "norwegian", "portuguese",
    "romanian", "spanish", "swedish", "turkish",
]  # fmt: skip
CREATE_LANGUAGE = """
CREATE TEXT SEARCH DICTIONARY convmemory_{language} (TEMPLATE = snowball, LANGUAGE = {language});
CREATE TEXT SEARCH CONFIGURATION convmemory_{language} (COPY = convmemory);
ALTER TEXT SEARCH CONFIGURATION convmemory_{language}
    ALTER MAPPING FOR {tokens} REPLACE convmemory_stem WITH convmemory_{language};
"""
DROP_LANGUAGE = """
DROP TEXT SEARCH CONFIGURATION convmemory_{language};
DROP TEXT SEARCH DICTIONARY convmemory_{language};
"""
ANY_LETTERS = "word, hword, hword_part"
LATIN_LETTERS = "asciiword, hword_asciipart, asciihword"


def configuration(language: str) -> migrations.RunSQL:
    tokens = ANY_LETTERS if language in SCRIPTS else f"{ANY_LETTERS}, {LATIN_LETTERS}"
    create = CREATE_LANGUAGE.format(language=language, tokens=tokens)
    return migrations.RunSQL(create, DROP_LANGUAGE.format(language=language))


LANGUAGES = [configuration(language) for language in sorted([*SCRIPTS, *LATIN])]
# Binary codes hold no pattern that compression could use, and are read as a whole.
STORE_CODES_AS_THEY_ARE = "ALTER TABLE search_binarycodeblock ALTER COLUMN codes SET STORAGE EXTERNAL"
# Late interaction reads hundreds of token vectors at a time: they stay in their rows as far as a page has room.
STORE_TOKENS_IN_ROWS = "ALTER TABLE search_tokenvectors ALTER COLUMN vectors SET STORAGE MAIN"


class Migration(migrations.Migration):
    replaces = [  # of the databases of commit 5e9aed6e
        ("search", "0001_turn_index"),
        ("search", "0002_space_progress"),
        ("search", "0002_title_words"),
        ("search", "0003_signs_of_turns"),
        ("search", "0003_without_echoes"),
        ("search", "0004_admin_lookups"),
        ("search", "0004_unpacked_from"),
        ("search", "0005_owned_words"),
        ("search", "0005_set_aside_passages"),
        ("search", "0006_equal_items"),
        ("search", "0006_passages_of_the_index"),
        ("search", "0007_behind_since"),
        ("search", "0007_sources_and_items"),
        ("search", "0008_set_aside_chunks"),
        ("search", "0008_vector_indexes_are_of_codes"),
        ("search", "0009_owners_in_unique_constraints"),
        ("search", "0009_words_missing_from"),
        ("search", "0010_system_prompts"),
        ("search", "0010_vectors_of_items"),
        ("search", "0011_posting_blocks"),
        ("search", "0012_past_searches"),
        ("search", "0013_languages"),
        ("search", "0014_reranker_weights"),
        ("search", "0015_item_moments"),
        ("search", "0016_token_vectors_of_words"),
        ("search", "0017_token_vectors_in_their_rows"),
        ("search", "0018_newest_vectors"),
    ]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('embeddings', '0001_initial'),
    ]

    operations = [
        migrations.RunSQL(CREATE_TEXT_SEARCH, DROP_TEXT_SEARCH),
        *LANGUAGES,
        migrations.CreateModel(
            name='RerankerWeight',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='The model, or the address where none is named.', max_length=300, unique=True)),
                ('weight', models.FloatField(help_text='Of its scaled score, compared with 1 of the scaled fused score; 0 leaves it out.')),
                ('questions', models.PositiveIntegerField(help_text='How many it was measured on.')),
                ('gain', models.FloatField(help_text='In mean reciprocal rank, on folds that were left out.')),
                ('fitted_at', models.DateTimeField(auto_now=True)),
            ],
        ),
        migrations.CreateModel(
            name='Source',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=20)),
                ('object_id', models.BigIntegerField()),
                ('title', models.CharField(blank=True, default='', max_length=300)),
                ('agent', models.CharField(blank=True, default='', max_length=100)),
                ('project', models.CharField(blank=True, default='', max_length=300)),
                ('origin', models.CharField(blank=True, default='', max_length=50)),
                ('archived', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField()),
                ('updated_at', models.DateTimeField()),
                ('item_count', models.PositiveIntegerField(default=0)),
                ('element_count', models.PositiveIntegerField(default=0)),
                ('version', models.PositiveBigIntegerField(default=0)),
                ('spoken_length', models.PositiveIntegerField(default=0, help_text='Sum of the lengths of its items.')),
                ('layout', models.PositiveSmallIntegerField(db_default=4, default=4, help_text="The version of what is derived from its items' rows; an old one is brought up to the newest.")),
                ('languages', models.CharField(db_default='', default='', help_text='Those of its items, besides English, as `search/languages.py` names them, with spaces between.', max_length=300)),
                ('unpacked_from', models.PositiveIntegerField(help_text='The first item whose postings a worker has not packed yet; null if it has packed all.', null=True)),
                ('words_missing_from', models.PositiveIntegerField(help_text='The first item whose words are not stored, or not as they are now; null if all are.', null=True)),
                ('behind_since', models.DateTimeField(help_text='When the first change was stored that is not indexed yet; null if all are.', null=True)),
                ('title_words', models.GeneratedField(db_persist=True, expression=models.Func(models.F('title'), output_field=django.contrib.postgres.search.SearchVectorField(), template="to_tsvector('convmemory', %(expressions)s)"), output_field=django.contrib.postgres.search.SearchVectorField())),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
            ],
        ),
        migrations.CreateModel(
            name='PostingBlock',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('home', models.PositiveSmallIntegerField(choices=[(0, 'Spoken'), (1, 'Unspoken')])),
                ('items', models.BinaryField()),
                ('words', models.BinaryField()),
                ('sizes', models.BinaryField()),
                ('postings', models.BinaryField()),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('source', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='search.source')),
            ],
        ),
        migrations.CreateModel(
            name='Passage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('element_id', models.BigIntegerField(help_text="The message, or the like, whose number the source's kind gives.")),
                ('content_hash', models.UUIDField()),
                ('item_number', models.PositiveIntegerField()),
                ('start', models.PositiveIntegerField()),
                ('end', models.PositiveIntegerField()),
                ('part_index', models.PositiveSmallIntegerField()),
                ('kind', models.PositiveSmallIntegerField(choices=[(0, 'User'), (1, 'Assistant'), (2, 'Thinking'), (3, 'Tool'), (4, 'Tool call'), (5, 'Document'), (6, 'System prompt'), (7, 'Outside of turns')])),
                ('token_count', models.PositiveSmallIntegerField()),
                ('asks', models.BooleanField(db_default=False, default=False, help_text='Whether it is a question.')),
                ('embedding', pgvector.django.halfvec.HalfVectorField()),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='embeddings.embeddingspace')),
                ('source', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='passages', to='search.source')),
            ],
        ),
        migrations.CreateModel(
            name='ItemEmbedding',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('item_number', models.PositiveIntegerField()),
                ('chunk_number', models.PositiveIntegerField(default=0)),
                ('content_hash', models.BinaryField(help_text='Of the whole item, not of the chunk.', max_length=32)),
                ('token_count', models.PositiveIntegerField()),
                ('embedding', pgvector.django.halfvec.HalfVectorField()),
                ('code', models.GeneratedField(db_persist=True, expression=models.Func(models.F('embedding'), function='binary_quantize', output_field=search.fields.BitsField(), template='%(function)s(%(expressions)s)::bit varying'), output_field=search.fields.BitsField())),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='embeddings.embeddingspace')),
                ('source', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='item_embeddings', to='search.source')),
            ],
        ),
        migrations.CreateModel(
            name='Item',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('opening_id', models.BigIntegerField(help_text='The element that opens the item.', null=True)),
                ('heading', models.CharField(max_length=300)),
                ('created_at', models.DateTimeField()),
                ('content_hash', models.BinaryField(max_length=32)),
                ('length', models.PositiveIntegerField(help_text='Words of `spoken`, as full text search counts them.')),
                ('spoken', django.contrib.postgres.search.SearchVectorField()),
                ('unspoken', django.contrib.postgres.search.SearchVectorField()),
                ('error', models.TextField(blank=True, default='', help_text='Why the item could not be embedded.')),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('source', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='items', to='search.source')),
            ],
        ),
        migrations.CreateModel(
            name='BinaryCodeBlock',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField()),
                ('entries', models.BinaryField()),
                ('codes', models.BinaryField()),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='embeddings.embeddingspace')),
                ('source', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='search.source')),
            ],
        ),
        migrations.CreateModel(
            name='SourceIndex',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('indexed_version', models.PositiveBigIntegerField(default=0)),
                ('noted_version', models.PositiveBigIntegerField(default=0)),
                ('dirty_from', models.PositiveIntegerField(blank=True, null=True)),
                ('last_item', models.IntegerField(default=-1, help_text='The last item that was done.')),
                ('passages', models.PositiveIntegerField(default=0)),
                ('newest_vector', models.PositiveBigIntegerField(db_default=0, default=0, help_text='The id of the item vector stored last, even if it is gone.')),
                ('refused', models.JSONField(default=dict, help_text="Why the model took an item's text not, by item number.")),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('error', models.TextField(blank=True, default='')),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('source', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='index', to='search.source')),
                ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='embeddings.embeddingspace')),
            ],
            options={
                'verbose_name': 'index state',
            },
        ),
        migrations.CreateModel(
            name='TokenVectors',
            fields=[
                ('passage', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='tokens', serialize=False, to='search.passage')),
                ('vectors', models.BinaryField(help_text='one bit a dimension, token after token')),
                ('archive', models.ForeignKey(db_column='owner_id', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
            ],
            options={
                'verbose_name_plural': 'token vectors',
            },
        ),
        migrations.CreateModel(
            name='PastSearch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('address', models.CharField(max_length=1000)),
                ('text', models.CharField(blank=True, max_length=500)),
                ('used_at', models.DateTimeField()),
                ('saved_at', models.DateTimeField(blank=True, null=True)),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
            ],
            options={
                'verbose_name_plural': 'past searches',
                'indexes': [models.Index(fields=['archive', '-used_at'], name='past_search_newest')],
                'constraints': [models.UniqueConstraint(fields=('archive', 'address'), name='past_search_unique')],
            },
        ),
        migrations.CreateModel(
            name='SetAsidePassage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=20)),
                ('object_id', models.BigIntegerField()),
                ('content_hash', models.UUIDField()),
                ('token_count', models.PositiveSmallIntegerField()),
                ('embedding', pgvector.django.halfvec.HalfVectorField()),
                ('vectors', models.BinaryField(help_text='Its token vectors.', null=True)),
                ('archive', models.ForeignKey(db_column='owner_id', db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.archive')),
                ('space', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='embeddings.embeddingspace')),
            ],
            options={
                'indexes': [models.Index(fields=['archive', 'kind', 'object_id'], name='set_aside_object'), models.Index(fields=['content_hash', 'archive'], name='set_aside_content')],
            },
        ),
        migrations.AddIndex(
            model_name='source',
            index=models.Index(condition=models.Q(('unpacked_from__isnull', False)), fields=['archive'], name='source_unpacked'),
        ),
        migrations.AddIndex(
            model_name='source',
            index=models.Index(condition=models.Q(('languages', ''), _negated=True), fields=['archive'], include=('kind', 'languages'), name='source_languages'),
        ),
        migrations.AddConstraint(
            model_name='source',
            constraint=models.UniqueConstraint(fields=('archive', 'kind', 'object_id'), name='source_unique'),
        ),
        migrations.AddIndex(
            model_name='postingblock',
            index=models.Index(fields=['archive', 'home'], include=('id',), name='posting_block_owner'),
        ),
        migrations.AddConstraint(
            model_name='postingblock',
            constraint=models.UniqueConstraint(fields=('source', 'number', 'home', 'archive'), name='posting_block_unique'),
        ),
        migrations.AddIndex(
            model_name='passage',
            index=models.Index(fields=['archive', 'space', 'kind'], name='passage_owner'),
        ),
        migrations.AddIndex(
            model_name='passage',
            index=models.Index(fields=['source', 'item_number'], name='passage_item'),
        ),
        migrations.AddIndex(
            model_name='passage',
            index=models.Index(fields=['element_id'], name='passage_element'),
        ),
        migrations.AddIndex(
            model_name='passage',
            index=models.Index(fields=['content_hash', 'archive'], name='passage_content_owner'),
        ),
        migrations.AddIndex(
            model_name='itemembedding',
            index=models.Index(fields=['archive', 'space'], include=('source', 'item_number', 'id', 'code'), name='item_embedding_owner'),
        ),
        migrations.AddIndex(
            model_name='itemembedding',
            index=models.Index(fields=['archive', 'id'], name='item_embedding_newest'),
        ),
        migrations.AddIndex(
            model_name='itemembedding',
            index=models.Index(fields=['archive', 'content_hash'], name='item_embedding_owner_content'),
        ),
        migrations.AddConstraint(
            model_name='itemembedding',
            constraint=models.UniqueConstraint(fields=('source', 'space', 'item_number', 'chunk_number', 'archive'), name='item_embedding_unique'),
        ),
        migrations.AddIndex(
            model_name='item',
            index=models.Index(fields=['archive', 'id'], name='item_newest'),
        ),
        migrations.AddIndex(
            model_name='item',
            index=models.Index(fields=['archive', 'source', 'number'], include=('created_at',), name='item_moments'),
        ),
        migrations.AddIndex(
            model_name='item',
            index=models.Index(condition=models.Q(('error', ''), _negated=True), fields=['id'], name='item_failed'),
        ),
        migrations.AddConstraint(
            model_name='item',
            constraint=models.UniqueConstraint(fields=('source', 'number', 'archive'), name='item_unique'),
        ),
        migrations.AddIndex(
            model_name='binarycodeblock',
            index=models.Index(fields=['archive', 'space'], include=('id',), name='code_block_owner'),
        ),
        migrations.AddConstraint(
            model_name='binarycodeblock',
            constraint=models.UniqueConstraint(fields=('source', 'space', 'number', 'archive'), name='code_block_unique'),
        ),
        migrations.AddIndex(
            model_name='sourceindex',
            index=models.Index(fields=['archive'], name='source_index_owner'),
        ),
        migrations.AddConstraint(
            model_name='sourceindex',
            constraint=models.UniqueConstraint(fields=('source', 'space', 'archive'), name='source_index_unique'),
        ),
        migrations.RunSQL([STORE_CODES_AS_THEY_ARE, STORE_TOKENS_IN_ROWS], migrations.RunSQL.noop),
    ]
